"""Programs of a no-go design say so: on the page, in the manifest, and at the head of every file that has comments."""

import json
from dataclasses import replace

import pytest

from excitor.design.programs.package import package
from excitor.design.programs.registry import NAMES, emitter, executor
from excitor.design.programs.verify import Judge, verify
from excitor.experiments.manifest import folder_files, parse_manifest

STAMP = "NO-GO DESIGN EMITTED ON PURPOSE"
WITHOUT_COMMENTS = (".json", ".csv")  # the manifest speaks for these
HEAD = 600  # characters
REASONS = ("zone 'table' concerns <b>links</b> without\nvolume", "`too` little *time*")


@pytest.fixture(scope="module")
def plans(plan_of):
    made = {
        n: plan_of(name, period=2.0, step=0.008, ramp=1.0, swing=0.02, measured=1, warm_up=0)
        for n, name in ((6, "tx40"), (7, "iiwa"))
    }
    return {n: [replace(plan, dry=True), plan] for n, plan in made.items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_a_no_go_design_states_it(plans, name):
    plain = plans[7 if name == "franka" else 6]
    stamped = package(emitter(name), [replace(plan, no_go=REASONS) for plan in plain])
    for program in stamped.programs:
        for file, text in program.files.items():
            assert (STAMP in text[:HEAD]) == (not file.endswith(WITHOUT_COMMENTS)), file
    contents = folder_files(stamped, {"design.json": "0"})
    page = contents["README.md"].decode()
    assert STAMP in page[:HEAD]
    assert r"zone 'table' concerns \<b\>links\</b\> without volume" in page
    assert r"\`too\` little \*time\*" in page
    manifest = json.loads(contents["manifest.json"])
    assert (manifest["go"], manifest["allowed"], manifest["reasons"]) == (False, ["no-go"], list(REASONS))
    assert parse_manifest(contents["manifest.json"]).reasons == list(REASONS)


@pytest.mark.parametrize("name", NAMES)
def test_files_of_a_go_design_bear_no_stamp(plans, name):
    made = folder_files(package(emitter(name), plans[7 if name == "franka" else 6]), {"design.json": "0"})
    assert not any(STAMP.encode() in content for content in made.values())
    manifest = json.loads(made["manifest.json"])
    assert (manifest["go"], manifest["allowed"], manifest["reasons"]) == (True, [], [])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_stamp_changes_nothing_that_is_executed(plans, name):
    plan = plans[7 if name == "franka" else 6][1]
    target = emitter(name).TARGET
    errors = []
    for one in (plan, replace(plan, no_go=REASONS)):
        made = package(emitter(name), [one])
        verdict = verify(one, target, executor(name), files=made.texts, name=made.programs[0].name, judge=Judge())
        errors.append((verdict.problems, verdict.max_position_error))
    assert errors[0] == errors[1]
    assert errors[0][1] is not None
