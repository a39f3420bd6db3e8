"""The stages of a campaign as functions of its folder, and `Campaign`, which calls them from Python.

The command line calls the same functions and prints what they return.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from excitor.experiments.campaign import FILE as CAMPAIGN
from excitor.experiments.campaign import InvalidCampaign, OpenCampaign, method_problems, open_campaign
from excitor.experiments.design_json import FILE, finished_searches, read_design, write_design
from excitor.experiments.files import typed, write_atomically
from excitor.experiments.model import FILE as MODEL
from excitor.experiments.model import Model
from excitor.experiments.setup import Overrides, Setup, set_up, settings_of
from excitor.robots.errors import ExcitorError
from excitor.robots.executor import Workers, open_executor

if TYPE_CHECKING:
    from excitor.experiments.compare import Comparison
    from excitor.experiments.emit import EmitResult, Verification
    from excitor.experiments.gains import IdentifiedGains
    from excitor.experiments.identification import IdentifiedModel
    from excitor.experiments.next_run import NextRunAdvice
    from excitor.experiments.payload import IdentifiedLoad
    from excitor.experiments.plan import CampaignDesign, Listener
    from excitor.experiments.report.evidence import Evidence
    from excitor.experiments.status import Stage

PAGE = "plan.html"
COMPARISON = "compare.html", "compare.json"
Tell = Callable[[str], None]
Progress = Callable[[], "AbstractContextManager[Listener | None]"]


def design_stage(folder: Path, given: Overrides, tell: Tell, progress: Progress = nullcontext) -> "CampaignDesign":
    """Design a campaign's motions and write design.json and plan.html; ExcitorError where nothing fits."""
    from excitor.design.explain import InfeasibleDesign
    from excitor.experiments.plan import design

    setup = set_up(open_campaign(folder, "design"))
    known = {} if given.fresh else finished_searches(setup.campaign.folder)
    settings = replace(settings_of(setup.design, given), searches=known)
    for remark in setup.remarks:
        tell(f"note: {remark}")
    try:
        with open_executor(given.workers, given.cluster) as executor, progress() as listen:
            for note in executor.notes:
                tell(f"note: {note}")
            designed = design(setup, replace(settings, executor=executor), listen)
    except InfeasibleDesign as error:
        set_aside(folder, tell)
        raise ExcitorError(f"{error}\n{_margins_reported(setup)}") from None
    for run in designed.searched:
        if run.key in known and run.plan.same_as is None:
            tell(f"run {run.plan.name!r}: nothing that its motion depends on has changed; its search is kept")
    for path in write_all(designed):
        tell(f"wrote {path}")
    return designed


def set_aside(folder: Path, tell: Tell) -> None:
    """Rename an earlier design: it is of another campaign, and its go is no go of this one."""
    folder = folder.parent if folder.is_file() else folder
    for name in (FILE, PAGE):
        path = folder / name
        if path.exists():
            old = path.with_stem(f"{path.stem}.old")
            path.replace(old)
            tell(f"{path} was of an earlier campaign; it is {old.name} now")


def _margins_reported(setup: Setup) -> str:
    """Say that figures are of limits after their margins, which is not what the file states."""
    limits = setup.campaign.content.limits
    return (
        f"All limits are those left by [limits]: {limits.velocity_percent:g} % of velocities, "
        f"{limits.acceleration_percent:g} % of accelerations, {limits.torque_percent:g} % of torques. To type a limit "
        "of a joint there, divide by that share."
    )


def write_all(designed: "CampaignDesign") -> list[Path]:
    """Write the page, then the design; a finished design needs its checkpoints no longer."""
    from excitor.experiments.plan import forget
    from excitor.experiments.report.plan import plan_data, plan_page

    folder = designed.setup.campaign.folder
    page = folder / PAGE
    write_atomically(page, plan_page(plan_data(designed)))
    written = [write_design(designed), page]
    if designed.finished:
        forget(folder)
    return written


def identify_stage(
    folder: Path, method: str | None, tell: Tell, allow: Sequence[str] = ()
) -> "IdentifiedModel | IdentifiedLoad":
    """Identify a campaign's robot, or what it carries, and write the model; by another method where one is named."""
    from excitor.experiments.identification import code_note, identify, write_model
    from excitor.experiments.payload import identify_payload

    campaign = open_campaign(folder)
    if campaign.content.task == "gains":
        problem = f'task: is "gains"; excitor gains {typed(campaign.folder)} evaluates its runs'
        raise InvalidCampaign(campaign.folder / CAMPAIGN, [problem])
    if campaign.content.task == "payload":
        if method is not None:
            raise InvalidCampaign(campaign.folder / CAMPAIGN, ["--method: goes with campaigns of the arm"])
        load = identify_payload(campaign, tell)
        tell(f"wrote {load.model.save(campaign.folder)}")
        return load
    stated = campaign.content.identify
    changed = {"method": method or stated.method, "allow": [*stated.allow, *allow]}
    result = identify(with_settings(campaign, changed), tell)
    for path in write_model(result):
        tell(f"wrote {path}")
    if note := code_note(result):
        tell(note)
    return result


def gains_stage(folder: Path, tell: Tell) -> "tuple[IdentifiedGains, list[Path]]":
    """Identify the drives' gains and write gains.json, gains.toml and gains.html, the page last."""
    from excitor.experiments.gains import identify_gains, write_gains

    result = identify_gains(open_campaign(folder), tell)
    written = write_gains(result)
    for path in written:
        tell(f"wrote {path}")
    return result, written


def with_settings(campaign: OpenCampaign, changed: Mapping[str, Any]) -> OpenCampaign:
    """Take other settings of the identification than those that the campaign states."""
    settings = campaign.content.identify.model_copy(update=changed)
    if problems := method_problems(settings):
        raise InvalidCampaign(campaign.folder / CAMPAIGN, problems)
    return replace(campaign, content=campaign.content.model_copy(update={"identify": settings}))


@dataclass(frozen=True, eq=False)
class Reported:
    """A report that was written: its data, its first sentences, and the files, the page last."""

    data: Mapping[str, Any]
    sentences: tuple[str, ...]
    written: tuple[Path, ...]


def report_stage(
    folder: Path,
    tell: Tell,
    *,
    pdf: bool = False,
    tracking: bool = False,
    figures: Path | None = None,
    tables: Path | None = None,
) -> Reported:
    """Write the report of the model on file where that is fresh, else of one identified anew."""
    from excitor.experiments.report.data import pdf as print_page
    from excitor.experiments.report.data import report_data, write_data
    from excitor.experiments.report.evidence import chain_commands, simulated_runs
    from excitor.experiments.report.payload import HEADLINES, load_page
    from excitor.experiments.report.plots import write_figures, write_tables

    campaign = open_campaign(folder)
    folder = campaign.folder
    if campaign.content.task == "gains":
        found, paths = gains_stage(folder, tell)
        return Reported(found.to_json(), (f"{found.headline}.",), tuple(paths))
    design = read_design(folder) if (folder / FILE).exists() else None
    commands = chain_commands(campaign, design, simulated_runs(campaign))
    if campaign.content.task == "payload":
        data = _load_report(campaign, commands, tell)
        rating = data["load"]["rating"]
        sentences = [HEADLINES[rating["answer"]], *(f"  {one['sentence']}" for one in rating["quantities"])]
        written = write_data(folder, data, load_page)
    else:
        data = report_data(evidence_of(campaign, tell), design=design, commands=commands, tracking=tracking)
        verdict = data["verdict"]
        sentences = [verdict["headline"], *(f"{use['use']}: {' '.join(use['reasons'])}" for use in verdict["uses"])]
        written = write_data(folder, data)
    for path in written:
        tell(f"wrote {path}")
    for place, write in ((figures, write_figures), (tables, write_tables)):
        if place is not None:
            tell(f"wrote {', '.join(path.name for path in write(data, place))} into {place}")
    if pdf:
        tell(print_page(written[-1]).sentence)
    return Reported(data, tuple(sentences), tuple(written))


def evidence_of(campaign: OpenCampaign, tell: Tell) -> "Evidence":
    """Take the model on file where it is fresh, else identify anew; and say which."""
    from excitor.experiments.identification import fresh_model, identify
    from excitor.experiments.report.evidence import gather, gather_on_file

    model, reason = fresh_model(campaign)
    if model is not None:
        found = gather_on_file(campaign, model, tell)
        if found is not None:
            _report_fresh(campaign, model, tell)
            return found
        reason = f"the errors in {MODEL} are not those that its logs give"
    tell(f"identified anew because {reason}")
    return gather(identify(campaign, tell))


def _load_report(campaign: OpenCampaign, commands: Sequence[str], tell: Tell) -> dict[str, Any]:
    from excitor.experiments.identification import fresh_model
    from excitor.experiments.payload import identify_payload, read_payload_runs
    from excitor.experiments.report.payload import load_report_data

    model, reason = fresh_model(campaign)
    if model is not None:
        runs = read_payload_runs(campaign, tell)
        _report_fresh(campaign, model, tell)
        return load_report_data(campaign, model, runs, commands)
    tell(f"identified anew because {reason}")
    found = identify_payload(campaign, tell)
    return load_report_data(campaign, found.model, found.runs, commands)


def _report_fresh(campaign: OpenCampaign, model: Model, tell: Tell) -> None:
    written = datetime.fromtimestamp((campaign.folder / MODEL).stat().st_mtime).isoformat(" ", "minutes")
    tell(f"{MODEL} of {written} is fresh: used")
    for finding in model.findings:
        tell(f"{finding['level']}: {finding['sentence']}")


def compare_stage(folder: Path, methods: Sequence[str], tell: Tell) -> "tuple[Comparison, dict[str, Any], Path]":
    """Compare estimators on a campaign's data and write compare.html and compare.json; the page is last."""
    from excitor.experiments.compare import compare
    from excitor.experiments.report.comparison import compare_data, compare_page

    campaign = open_campaign(folder)
    compared = compare(campaign, methods, tell)
    data = compare_data(compared)
    texts = (compare_page(data), json.dumps(data, indent=2, allow_nan=False) + "\n")
    for name, text in zip(COMPARISON, texts, strict=True):  # the data last: they tell that the page is up to date
        write_atomically(campaign.folder / name, text)
        tell(f"wrote {campaign.folder / name}")
    return compared, data, campaign.folder / COMPARISON[0]


@dataclass
class Campaign:
    """A campaign's folder, with the verbs of the command line as methods.

    Args:
        folder: with a campaign.toml; `Campaign.begin` makes one.
        tell: called with each sentence about progress; by default nothing is said.

    design, emit, simulate, identify, report, compare and export write their files and return the campaign, so that
    they can be chained; `results` holds what each found, by its name. status, verify, next and watch return what they
    find. What is wrong is an ExcitorError in sentences.

    >>> import excitor as ex, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     campaign = ex.Campaign.begin(folder + "/cell", "rotradi")
    ...     [stage.name for stage in campaign.status()][0]
    'design.json'
    """

    folder: Path
    tell: Tell = field(default=lambda _: None, repr=False)
    results: dict[str, Any] = field(default_factory=dict, repr=False)

    def __init__(self, folder: str | PathLike[str], tell: Tell = lambda _: None) -> None:
        self.folder, self.tell, self.results = Path(folder), tell, {}

    @classmethod
    def begin(
        cls,
        folder: str | PathLike[str],
        robot: str,
        task: Literal["arm", "payload", "gains"] = "arm",
        prior: str | PathLike[str] | None = None,
        from_logs: Sequence[str | PathLike[str]] = (),
    ) -> "Campaign":
        """Begin a campaign: a folder with a commented campaign.toml for a robot, as `excitor init`; or for its logs."""
        from excitor.experiments.from_logs import begin_from_logs
        from excitor.experiments.init import begin

        campaign = cls(folder)
        if from_logs:
            campaign.results["logs"] = begin_from_logs(Path(folder), [*map(Path, from_logs)], robot, task)[1]
        else:
            begin(Path(folder), robot, task, None if prior is None else Path(prior))
        return campaign

    def design(
        self,
        *,
        seed: int | None = None,
        evaluations: int | None = None,
        seconds: float | None = None,
        fresh: bool = False,
        pick: int | None = None,
        **who: Unpack[Workers],
    ) -> "Campaign":
        """Search, certify and forecast the motions: design.json and plan.html. Its result is `results["design"]`.

        `workers=` are local processes that search; `cluster=` is a dask scheduler's address, or a dask client.
        """
        if evaluations is not None and seconds is not None:
            raise ValueError("evaluations and seconds are both given; a budget is one of them")
        given = Overrides(seed, evaluations, seconds, fresh=fresh, pick=pick, **who)
        self.results["design"] = design_stage(self.folder, given, self.tell)
        return self

    def emit(
        self,
        *targets: str,
        approximate: bool = False,
        spacing: float | None = None,
        loss: float = 0.05,
        motion_only: bool = False,
        allow: Sequence[str] = (),
    ) -> "Campaign":
        """Write controllers' programs of the design; ExcitorError where one is refused or fails its own check."""
        from excitor.experiments.emit import Request, emit

        request = Request(targets, approximate, spacing, loss, motion_only, tuple(allow))
        _, emitted = emit(self.folder, request, self.tell)
        self.results["emit"] = emitted
        return self._unless([_reason(one) for one in emitted if not one.good])

    def _unless(self, refused: Sequence[str]) -> "Campaign":
        if refused:
            raise ExcitorError("; ".join(refused))
        return self

    def verify(self) -> "list[Verification]":
        """Run all emitted programs on a virtual clock against the plan; each result has `good` and `verdicts`."""
        from excitor.experiments.emit import verify_folder

        self.results["verify"] = found = verify_folder(self.folder, self.tell)[1]
        return found

    def simulate(
        self,
        *targets: str,
        faults: Sequence[str] = (),
        seed: int = 0,
        dry: bool = False,
        fresh: bool = False,
        engine: Literal["excitor", "mujoco"] = "excitor",
    ) -> "Campaign":
        """Run the emitted programs on a virtual robot: logs in the vendors' formats, and truth.json apart."""
        from excitor.experiments.simulate import SimulationOptions, simulate

        options = SimulationOptions(seed, tuple(faults), dry, fresh, engine=engine)
        self.results["simulate"] = made = simulate(self.folder, targets, options, self.tell)
        missing = (one for one in made if one.folder is None)
        return self._unless([one.refused for one in missing if one.target in targets or len(made) == 1])

    def status(self) -> "list[Stage]":
        """List the stages: what the folder holds, what of it is stale, and what to do next."""
        from excitor.experiments.status import status

        return status(self.folder)

    def identify(self, method: str | None = None, allow: Sequence[str] = ()) -> "Campaign":
        """Identify the robot from the logs: model.json, model.c, model.py, and model.urdf for a URDF robot.

        `allow` names refusals of the data to pass over; `results["identify"].verdict` says what the model is good for.
        """
        self.results["identify"] = identify_stage(self.folder, method, self.tell, allow)
        return self

    def gains(self) -> "Campaign":
        """Identify the drives' gains from runs without and with a weighed load: gains.json, .toml and .html.

        `results["gains"]` has `answered`, `headline` and, as in gains.json, `to_json()`; gains.toml is the robot with
        the identified law, to be named as the robot of later campaigns.
        """
        self.results["gains"] = gains_stage(self.folder, self.tell)[0]
        return self

    def report(
        self,
        *,
        pdf: bool = False,
        tracking: bool = False,
        figures: str | PathLike[str] | None = None,
        tables: str | PathLike[str] | None = None,
    ) -> "Campaign":
        """Write report.html and report.json: of the model on file where it is fresh, else of one identified anew."""
        drawn, written = (None if place is None else Path(place) for place in (figures, tables))
        self.results["report"] = report_stage(
            self.folder, self.tell, pdf=pdf, tracking=tracking, figures=drawn, tables=written
        )
        return self

    def compare(self, *methods: str) -> "Campaign":
        """Fit with every estimator, or those named, and judge each on unseen runs: compare.html and compare.json."""
        self.results["compare"], _, _ = compare_stage(self.folder, methods, self.tell)
        return self

    def next(self, seed: int = 0) -> "NextRunAdvice":
        """Say which run would teach most now, and how to make it."""
        from excitor.experiments.next_run import advise

        self.results["next"] = found = advise(self.folder, seed=seed, tell=self.tell, warn=self.tell)
        return found

    def export(self, *forms: str, out: str | PathLike[str] | None = None, allow: Sequence[str] = ()) -> "Campaign":
        """Write the identified model in the forms named: mjcf, urdf, py, c, parquet, kuka, abb, fanuc, ur."""
        from excitor.experiments.export.export import ExportOptions, export

        options = ExportOptions(None if out is None else Path(out), allow=tuple(allow))
        self.results["export"], doubts = export(self.folder, list(forms), options)
        for sentence in doubts:
            self.tell(f"note: {sentence}")
        return self

    def watch(self, log: str | PathLike[str] | None = None) -> dict[str, Any]:
        """Take the logs that are there, learn from each cycle, and give the summary that `watch --json` prints."""
        from excitor.experiments.verbs.watch import watch_logs

        return watch_logs(self.folder, None if log is None else Path(log), tell=self.tell, once=True)[2]

    def __repr__(self) -> str:
        return f"<Campaign {self.folder}>"


def _reason(one: "EmitResult") -> str:
    reason = one.refused or f"{one.name}: not written"
    if one.verified is None:
        return reason
    problems = [*one.verified.problems, *(text for verdict in one.verified.verdicts for text in verdict.problems)]
    return f"{reason}: {'; '.join(problems[:5])}" if problems else reason
