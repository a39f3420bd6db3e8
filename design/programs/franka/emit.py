"""Robots with a 1 kHz joint position interface: a client streams the series, and logs the robot's states."""

from excitor.design.programs.plan import Plan
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import Target

TARGET = Target(
    name="franka",
    title="Franka robots (pylibfranka)",
    timing="A",
    scheme="a Python client evaluates the motion once a millisecond and streams joint positions",
    angle_unit="rad",
    sine_unit="rad",
    decimals=17,
    float_bits=64,
    longest_name=60,
    joints=7,
    steps=(0.001,),
    refuses=("mode", "home", "payload"),
    marks=True,
    clients=("franka_client.py", "run_motion.py"),
    needs=(
        "pylibfranka in the version that fits the robot's system, Python 3.10, and FCI activated in Desk.",
        "A computer with a real-time kernel, wired directly to the robot, doing nothing else meanwhile.",
        "Joint impedance control; the robot has no speed slider for streamed motions.",
        "After the word `yes` the client raises the collision thresholds to the joints' rated torques (87 and 12 N m) "
        "and to 200 N, and leaves them there: the robot does not stop at a touch. Nobody may be within reach.",
    ),
    loading=(
        "Copy the folder to the computer beside the robot.",
        "In Desk unlock the joints, set the end effector's mass, centre and inertia, and activate FCI; or state the "
        "load with `--load load.json` (mass in kg, center in m, inertia in kg m2).",
        "Guide the robot home, to within half a degree, and release the guiding button.",
        "Run `python3 franka_client.py PROGRAM.json --robot ADDRESS`. The client checks mode, errors, home pose, "
        "standstill and payload, says what will move, and waits for the word `yes` before anything does.",
        "It first holds still for half a second to see whether commands arrive; Ctrl-C slows the motion down and "
        "stops it within 0.3 s (longer where it is fast), and so do more than 5 ms without a state. A run that stopped "
        "starts anew, from home.",
    ),
    logs=("franka",),
    logging=(
        "The client keeps every state of the run in memory and writes PROGRAM.csv when it ends: robot time, time of "
        "the run, part, mark, q, dq, q_d, dq_d, tau_J, tau_J_d, dtau_J, theta, dtheta, tau_ext_hat_filtered.",
        "Lost packets show as larger steps of time; rows that never came are not filled in.",
    ),
    advice="Pair measured q (or theta, at the motors) with measured tau_J. Never use tau_ext_hat_filtered or "
    "tau_J_d: they come from the robot's own model.",
    assumed="The names of pylibfranka 0.21.",
)


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write the run for the client, which is the same for every run."""
    del spacing  # the motion is evaluated at every step
    return {f"{name}.json": run_json(plan, TARGET)}
