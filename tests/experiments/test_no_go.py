"""A no-go design: links that no constraint can watch, programs that are refused, searches that were interrupted."""

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import excitor as ex
from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.emit import Request, emit
from excitor.experiments.init import begin
from excitor.experiments.plan import CampaignDesign, volume_checks
from excitor.experiments.report.plan import plan_page, verdict
from excitor.experiments.setup import set_up, settings_of
from excitor.robots.errors import ExcitorError
from excitor.robots.load import catalog_names

BODY = "link = { mass = 2.0, center = [0.1, 0, 0], inertia = [0.01, 0, 0, 0.02, 0, 0.02] }\n"
NOTHING = "link = { mass = 0.0, inertia = [0, 0, 0, 0, 0, 0] }\n"
LIMITS = "limits = { position_deg = [-90, 90], velocity_deg_s = 90, acceleration_deg_s2 = 200, torque = 300 }\n"
TABLE = '[[cell.zone]]\nname = "table"\nkeep = "out"\nshape = "box"\nlow = [2, 2, 0]\nhigh = [3, 3, 1]\n'
STAMP = "NO-GO DESIGN EMITTED ON PURPOSE"
URDF = """<robot name="mine"><link name="base"/>
<link name="upper"><inertial><mass value="3"/><inertia ixx="0.03" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.01"/>
</inertial><collision><geometry><mesh filename="package://mine/upper.stl"/></geometry></collision></link>
<link name="fore"><inertial><mass value="1.5"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.004"/>
</inertial><collision><geometry><mesh filename="package://mine/fore.stl"/></geometry></collision></link>
<link name="hand"><collision><geometry><box size="0.01 0.01 0.01"/></geometry></collision></link>
<joint name="waist" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
<limit lower="-2" upper="2" velocity="2" effort="40"/></joint>
<joint name="bend" type="revolute"><parent link="upper"/><child link="fore"/><origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" velocity="2" effort="20"/></joint>
<joint name="flange" type="fixed"><parent link="fore"/><child link="hand"/><origin xyz="0 0 0.3"/></joint></robot>"""


def arm(covered=(), middle=BODY, length=0.0, held=""):
    """Three joints in a row; `length` is what lies between the second and the third."""
    joints = [
        f'[[joint]]\nname = "a"\nplacement = {{ xyz = [0, 0, 0.3] }}\n{LIMITS}{held}{BODY}',
        f'[[joint]]\nname = "b"\nplacement = {{ xyz = [0, 0, 0.3], axis = [0, 1, 0] }}\n{LIMITS}{middle}',
        f'[[joint]]\nname = "c"\nplacement = {{ xyz = [{length}, 0, 0], axis = [1, 0, 0] }}\n{LIMITS}{BODY}',
    ]
    capsules = [f'[[capsule]]\nlink = "{x}"\nstart = [0, 0, 0]\nend = [0.2, 0, 0]\nradius = 0.05\n' for x in covered]
    return 'name = "mine"\n' + "".join(joints) + '[friction]\nterms = ["viscous"]\n' + "".join(capsules)


def planned(folder, cell, robot=None, file="mine.toml", design=""):
    """Open a campaign as a design without runs whose forecast is content: only the volumes can make it a no-go."""
    if robot is not None:
        (folder / file).write_text(robot)
    (folder / "campaign.toml").write_text(f'robot = "{file}"\n{cell}\n[design]\n{design}')
    setup = set_up(open_campaign(folder, "design"))
    return CampaignDesign(setup, settings_of(setup.design), (), (), (), SimpleNamespace(checks=()), 0.0)


def test_one_link_with_a_volume_does_not_watch_for_the_others(tmp_path):
    made = planned(tmp_path, TABLE, arm(covered="c"))
    assert not made.go
    (check,) = made.checks
    for words in ("zone 'table'", "2 of 3 moving links", ": a, b (", "[[capsule]]", str(tmp_path / "mine.toml")):
        assert words in check.sentence
    for words in ('bodies = "tool"', "self_collision = false", "nothing keeps them clear"):
        assert words in check.sentence


def test_volumes_of_all_moving_links_are_enough(tmp_path):
    assert planned(tmp_path, TABLE, arm(covered="abc")).go


@pytest.mark.parametrize(
    ("cell", "go"),
    [
        ("", False),  # self_collision is true by default
        ("[cell]\nself_collision = false", True),
        ("[cell]\nself_collision = false\n" + TABLE, False),
        ("[cell]\nself_collision = false\n" + TABLE + 'bodies = "links"', False),
        ("[cell]\nself_collision = false\n" + TABLE + 'bodies = "tool"', True),
        (TABLE + 'bodies = "tool"', False),
    ],
)
def test_only_what_concerns_the_links_asks_for_their_volumes(tmp_path, cell, go):
    assert planned(tmp_path, cell, arm(covered="c")).go == go


def test_no_volume_at_all_is_no_go_by_self_collision_too(tmp_path):
    made = planned(tmp_path, "", arm())
    assert not made.go
    assert "nothing keeps them clear" in made.reasons[0]
    assert "zone" not in made.reasons[0]


@pytest.mark.parametrize(
    ("middle", "length", "go"),
    [
        (NOTHING, 0.0, True),  # a frame between two axes that meet
        (NOTHING, 0.4, False),  # something must bridge 0.4 m
        ("", 0.0, False),  # nothing is known of it
        (BODY, 0.0, False),
    ],
)
def test_a_link_without_volume_counts_unless_it_has_no_body(tmp_path, middle, length, go):
    assert planned(tmp_path, TABLE, arm("ac", middle, length), design='schedule = "gentle-first"').go == go


def test_a_link_that_cannot_move_needs_no_volume(tmp_path):
    still = arm("bc", held="locked_deg = 0\n")
    assert planned(tmp_path, TABLE, still).go
    free = arm("bc")
    held = 'joints = ["b", "c"]\nlocked_deg = { a = 0 }'
    assert planned(tmp_path, TABLE, free, design=held).go
    away = 'joints = ["b", "c"]\nlocked_deg = { a = 30 }'  # it moves there from home
    assert not planned(tmp_path, TABLE, free, design=away).go
    anywhere = 'joints = ["b", "c"]'
    assert not planned(tmp_path, TABLE, free, design=anywhere).go


def test_a_box_on_the_flange_covers_no_elbow(tmp_path):
    """As in public files of UR arms: meshes on all links, here not beside the file, and one small box on the last."""
    made = planned(tmp_path, TABLE, URDF, "mine.urdf")
    assert not made.go
    for words in (
        "The shape of upper, fore is not known",
        "60 mm",
        str(tmp_path / "mine.urdf"),
        "assumed_volumes = true",
    ):
        assert words in made.reasons[0]
    assert {capsule.part: capsule.origin for capsule in made.setup.robot.capsules} == {
        "upper": "assumed",
        "fore": "assumed",
        "hand": "stated",
    }


def test_assumed_volumes_are_relied_on_only_where_the_campaign_says_so(tmp_path):
    made = planned(tmp_path, "[cell]\nassumed_volumes = true\n" + TABLE, URDF, "mine.urdf")
    assert made.go
    page = plan_page({"verdict": verdict(made)})
    amber = page.partition('id="assumed" class="banner care"')[2].partition("</section>")[0]
    assert "The shape of upper, fore is not known" in amber
    green = page.partition('class="banner go"')[2].partition("</section>")[0]
    assert "not known" not in green


def test_what_is_not_watched_stands_outside_the_green_box(tmp_path):
    made = planned(tmp_path, TABLE, arm(covered="abc"))
    page = plan_page({"verdict": {**verdict(made), "unwatched": ["Not checked: link x"]}})
    red = page.partition('id="unwatched" class="banner no-go"')[2].partition("</section>")[0]
    green = page.partition('class="banner go"')[2].partition("</section>")[0]
    assert "Not checked: link x" in red
    assert "Not checked" not in green


@pytest.mark.parametrize(
    "cell", ["[cell]\nself_collision = false", "[cell]\nself_collision = false\n" + TABLE + 'bodies = "tool"']
)
def test_assumed_volumes_that_nothing_is_about_need_no_word(tmp_path, cell):
    assert planned(tmp_path, cell, URDF, "mine.urdf").go


def test_assumed_volumes_count_for_zones_of_problems_in_memory(tmp_path):
    (tmp_path / "mine.urdf").write_text(URDF)
    robot, far = ex.load_robot(str(tmp_path / "mine.urdf")), ex.Box((2.5, 2.5, 0.5), (1.0, 1.0, 1.0))
    series = ex.Series(period=5.0, harmonics=2)
    about_links = ex.build_problem(robot, series, [ex.KeepOut(far)])
    (check,) = volume_checks(about_links.setup)
    assert (check.name, check.holds) == ("assumed volumes", False)
    for nothing in ([], [ex.KeepOut(far, bodies="tool")]):
        assert volume_checks(ex.build_problem(robot, series, nothing).setup) == ()


@pytest.mark.parametrize("name", catalog_names())
def test_robots_of_the_catalogue_have_all_their_volumes(tmp_path, name):
    path = begin(tmp_path / "cell", name)
    path.write_text(path.read_text() + TABLE)
    assert volume_checks(set_up(open_campaign(path.parent, "design"))) == ()


SMALL = """robot = "rotradi"
home_deg = [10, 20, 30]
[design]
schedule = "single"
harmonics = 3
ramp_s = 2.0
warm_up_periods = 0
measured_periods = 2
controller_sample_s = 0.01
"""


def call(*arguments):
    return CliRunner().invoke(app, [str(x) for x in arguments], catch_exceptions=True)


@pytest.fixture(scope="module")
def no_go(tmp_path_factory):
    """A certified design that a check of its forecast makes a no-go."""
    folder = tmp_path_factory.mktemp("refused") / "cell"
    folder.mkdir()
    (folder / "campaign.toml").write_text(SMALL)
    assert call("design", folder, "--evaluations", 300, "--json").exit_code == 0
    path = folder / "design.json"
    data = json.loads(path.read_text())
    assert data["ready"] is True
    path.write_text(json.dumps(data | {"go": False, "reasons": ["elbow has no collision volume"]}))
    return folder


def test_emit_refuses_a_no_go_design(no_go):
    result = call("emit", no_go, "--target", "csv", "--json")
    assert result.exit_code == 1
    assert isinstance(result.exception, ExcitorError)
    for words in ("no-go", "elbow has no collision volume", "--allow no-go", str(no_go / "design.json")):
        assert words in str(result.exception)
    assert not (no_go / "programs").exists()


def test_the_stage_refuses_it_as_well(no_go):
    with pytest.raises(ExcitorError, match="no-go.*elbow has no collision volume.*--allow no-go"):
        emit(no_go, Request(("csv",)), lambda _: None)
    with pytest.raises(ExcitorError, match="'everything' is no refusal that can be overridden; expected 'no-go'"):
        emit(no_go, Request(("csv",), allow=("everything",)), lambda _: None)
    assert not (no_go / "programs").exists()


def test_emitted_on_purpose_it_says_so_and_verifies(no_go):
    assert call("emit", no_go, "--target", "csv", "--allow", "anything").exit_code == 2
    result = call("emit", no_go, "--target", "csv", "--target", "ros2", "--allow", "no-go", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["go"], told["reasons"]) == (False, ["elbow has no collision volume"])
    for target in ("csv", "ros2"):
        folder = no_go / "programs" / target
        page = (folder / "README.md").read_text()
        assert STAMP in page
        assert "elbow has no collision volume" in page
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["allowed"] == ["no-go"]
        assert manifest["reasons"] == ["elbow has no collision volume"]
    for yaml in (no_go / "programs" / "ros2").glob("*.yaml"):
        assert f"# {STAMP}" in yaml.read_text()
    assert call("verify", no_go).exit_code == 0


def test_a_go_design_needs_no_permission(no_go, tmp_path):
    (tmp_path / "campaign.toml").write_text(SMALL)
    data = json.loads((no_go / "design.json").read_text()) | {"go": True, "reasons": []}
    (tmp_path / "design.json").write_text(json.dumps(data))
    assert call("emit", tmp_path, "--target", "csv").exit_code == 0
    assert STAMP not in (tmp_path / "programs/csv/README.md").read_text()


def test_a_controller_wants_acceleration_limits(tmp_path):
    """Unknown is not held: stated by the campaign, or emitted on purpose, which page and manifest state."""
    (tmp_path / "mine.toml").write_text(arm("abc").replace(" acceleration_deg_s2 = 200,", ""))
    text = init_text(tmp_path / "mine.toml", tmp_path / "proposed")
    assert "\nacceleration_deg_s2 = 300.0" in text
    quick = (
        '[design]\nbase_frequency_hz = 0.5\nharmonics = 2\nschedule = "single"\nramp_s = 1.0\nmeasured_periods = 1\n'
        "warm_up_periods = 0\ncontroller_sample_s = 0.01\n"
    )
    (tmp_path / "campaign.toml").write_text('robot = "mine.toml"\nhome_deg = [0, 0, 0]\n' + quick)
    call("design", tmp_path, "--evaluations", 300)
    ros2 = ("emit", tmp_path, "--target", "ros2", "--allow", "no-go")
    refused = call(*ros2, "--json")
    assert refused.exit_code == 1, refused.output
    reason = {one["target"]: one["refused"] for one in json.loads(refused.stdout)["targets"]}
    assert "states an acceleration limit of a, b, c" in reason["ros2"]
    assert "acceleration_deg_s2 = 300.0 under [limits]" in reason["ros2"]
    assert "--allow unknown-limits" in reason["ros2"]
    assert reason["csv"] == ""
    assert call(*ros2, "--allow", "unknown-limits").exit_code == 0
    page, manifest = ((tmp_path / "programs" / "ros2" / file).read_text() for file in ("README.md", "manifest.json"))
    assert "UNKNOWN LIMITS" in page
    assert "| acceleration b |" in page
    assert json.loads(manifest)["allowed"] == ["no-go", "unknown-limits"]
    assert call("verify", tmp_path).exit_code == 0
    with (tmp_path / "campaign.toml").open("a") as file:
        file.write("[limits]\nacceleration_deg_s2 = 300.0\n")
    call("design", tmp_path, "--evaluations", 300)
    assert call(*ros2).exit_code == 0
    assert "UNKNOWN LIMITS" not in (tmp_path / "programs" / "ros2" / "README.md").read_text()


def init_text(robot, folder):
    assert call("init", folder, "--robot", robot).exit_code == 0
    return (folder / "campaign.toml").read_text()


def test_an_interrupted_design_exits_130(tmp_path, monkeypatch):
    """What SIGINT does to a search, without a process: the budget's listener raises KeyboardInterrupt."""
    from contextlib import contextmanager

    from excitor.experiments.verbs import design as stage

    @contextmanager
    def impatient():
        calls = []

        def listen(run, progress):
            calls.append(run)
            if len(calls) == 3:
                raise KeyboardInterrupt

        yield listen

    monkeypatch.setattr(stage, "progress", impatient)
    (tmp_path / "campaign.toml").write_text(SMALL)
    result = call("design", tmp_path, "--evaluations", 2000, "--json")
    data = json.loads((tmp_path / "design.json").read_text())
    assert (data["ready"], data["finished"], data["go"]) == (True, False, False)
    assert any("The search was interrupted" in reason for reason in data["reasons"])
    assert result.exit_code == 130
