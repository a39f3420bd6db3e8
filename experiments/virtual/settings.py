"""How a virtual robot differs from what is known of it, how it is driven, and what its sensors add."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Spreads are standard deviations; torque shares are of what a joint can give (`truth.torque_scale`).

    Noise-free and without quirks: `QUIET`. Temperatures in °C, times in s.
    """

    links: float = 0.08  # relative spread of every link's mass distribution
    rotors: float = 0.05
    friction: float = 0.15
    current_law: float = 0.0  # spread of torque constants; currents alone cannot show it
    loss: float = 0.1  # spread of what gears lose, each direction by itself; gears without loss stay so
    gears: float = 0.0  # spread of efficiencies below 1, both directions alike
    ripple: float = 0.001  # torque share, once a motor turn: in no model
    stribeck: float = 0.0  # share of Coulomb friction added near standstill: in no model
    resonance_hz: float | None = None  # of each joint's links on its gear, the motor held; None: gears are rigid
    resonance_damping: float = 0.05  # ratio

    heating: float = 30.0  # K at last, if a joint always turned at a third of its speed limit
    heating_time: float = 1800.0
    viscous_drift: float = 0.3  # share of viscous friction lost when that warm
    coulomb_drift: float = 0.1
    ambient: float = 25.0
    warm: float = 0.0  # share of `heating` that the robot has at the start

    command_lag: float = 0.004  # of what the servo loop follows behind what was commanded
    bandwidth_hz: float = 18.0  # of the position loop
    damping_ratio: float = 0.8
    control_step: float = 0.001  # at most; a whole part of the log's
    current_lag: float = 0.0005  # of the current loop
    velocity_filter: float = 0.001  # of velocities that the controller derives from its encoders

    white: float = 0.02  # torque share of a single sample
    slow: float = 0.002
    sensor_white: float = 0.003  # of torque sensors at the joints
    joint_sensors: bool = False  # whether there are any; they feel the links, neither rotors nor friction
    encoder_counts: int = 65536  # a motor turn, of motors geared by 100 or more; else finer; 0: exact
    sensor_lag: float = 0.0  # torques and currents are this late
    log_step: float | None = None  # None: the controller's own
    jitter: float = 0.02  # of the log's interval
    dropped: float = 0.0  # share of rows lost
    clock_drift: float = 0.0  # share by which the log's clock runs fast
    standing: tuple[float, float] = (1.0, 2.0)  # before, between and after the parts of a program

    speed: float = 1.0  # the speed slider
    speed_told: bool = True  # whether the log shows it
    stuck: tuple[int, ...] = ()  # joints whose brake is closed
    limited: tuple[int, ...] = ()  # joints whose drive gives too little current

    def __post_init__(self) -> None:
        for name in ("heating_time", "bandwidth_hz", "control_step", "speed", "damping_ratio"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a positive number")
        for name in ("links", "rotors", "friction", "loss", "white", "slow", "sensor_lag", "current_lag", "dropped"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a number from 0 to below 1")
        if not 0.0 <= self.jitter < 0.5:
            raise ValueError(f"jitter is {self.jitter}, expected a share of the interval below a half")
        if self.resonance_hz is not None and not self.resonance_hz > 0.0:
            raise ValueError(f"resonance_hz is {self.resonance_hz}, expected a positive frequency, or None")
        if not 0.0 <= self.standing[0] <= self.standing[1]:
            raise ValueError(f"standing is {self.standing}, expected the shortest and the longest time in s")


QUIET = Settings(
    ripple=0.0,
    viscous_drift=0.0,
    coulomb_drift=0.0,
    white=0.0,
    slow=0.0,
    sensor_white=0.0,
    encoder_counts=0,
    jitter=0.0,
)
