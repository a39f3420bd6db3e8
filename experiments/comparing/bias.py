"""Is least squares biased here by noise in the motion? What the Durbin-Wu-Hausman test says, and what follows."""

from collections.abc import Sequence
from dataclasses import dataclass

from excitor.identify.instruments import LEVEL
from excitor.identify.methods import Answer

EXACT = ("ols", "wls", "irls", "ridge", "rls", "ml")  # take the measured motion for the true one


@dataclass(frozen=True, slots=True)
class Bias:
    """The verdict of the test."""

    p_value: float
    statistic: float
    strong: bool = True  # the instruments owe nothing to the measured motion: what the robot was told is known

    @property
    def found(self) -> bool:
        """Whether instruments give significantly other parameters than least squares."""
        return self.p_value < LEVEL

    def concerns(self, method: str) -> bool:
        """Whether a method is among those that the test surely finds biased."""
        return self.found and self.strong and method in EXACT

    def suspects(self, method: str) -> bool:
        """Whether the test finds a method biased, but with instruments that are not sure themselves."""
        return self.found and not self.strong and method in EXACT

    @property
    def sentence(self) -> str:
        """Say what was found."""
        verdict = "finds least squares biased" if self.found else "finds no bias of least squares"
        said = f"The Durbin-Wu-Hausman test {verdict} (p = {self.p_value:.2g})"
        if not self.strong:
            shown = "would have shown" if not self.found else "is free of them, and whether iv is right is not sure"
            return (
                f"{said}. What the robot was told is not known here, and instruments simulated along the measured "
                f"motion share its slow errors: only what is fast {shown}."
            )
        if not self.found:
            return f"{said}: noise in the measured motion does not matter, and instruments are not needed."
        return (
            f"{said}: instruments, which owe nothing to the noise of the measured motion, give significantly other "
            "parameters. Noise in velocities and accelerations is one cause, a model that lacks something (a friction "
            "term, a delay) is another."
        )

    def advice(self, method: str) -> str:
        """Say what a biased method is still good for."""
        if not self.strong:
            return (
                f"The Durbin-Wu-Hausman test suspects {method} of bias (p = {self.p_value:.2g}), and a small held-out "
                "error does not clear it: that motion is as noisy as the motion learned from, and rewards the bias. "
                "Trust it for torques of motions measured like these; for the numbers themselves, filter positions "
                "more (processing.lowpass_hz), compare again, and see whether they stay."
            )
        return (
            f"The Durbin-Wu-Hausman test finds {method} biased (p = {self.p_value:.2g}). Held-out motion is as noisy "
            "as the motion it learned from, and that rewards the bias: for torques of measured motions it is the "
            "better model, but for simulation, or the numbers themselves, believe iv."
        )


def bias_of(answers: Sequence[Answer], strong: bool) -> Bias | None:
    """Find the test's verdict among the methods' evidence; `strong`: what the robot was told is known."""
    for answer in answers:
        p_value = answer.evidence.get("dwh_p")
        if p_value is not None:
            return Bias(float(p_value), float(answer.evidence.get("dwh_statistic", float("nan"))), strong)
    return None
