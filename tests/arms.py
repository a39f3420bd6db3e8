"""Small arms as URDF text: three joints, and what hangs on them."""

BOX = '<{0}><origin xyz="{1} 0 0"/><geometry><box size="{2} 0.06 0.06"/></geometry></{0}>'
BODY = '<inertial><origin xyz="{0} 0 0"/><mass value="{1}"/><inertia {2}/></inertial>'


def link(name, length=0.3, mass=2.0, box=True):
    across = mass * (length**2 / 12 + 0.001)
    inertia = f'ixx="{0.002 * mass}" ixy="0" ixz="0" iyy="{across}" iyz="0" izz="{across}"'
    shape = BOX.format("collision", 0.5 * length, length) if box else ""
    return f'<link name="{name}">{BODY.format(0.5 * length, mass, inertia)}{shape}</link>'


def joint(name, parent, child, *, kind="revolute", at="0 0 0", axis="0 0 1", limits="-2.5 2.5", more=""):
    low, high = limits.split()
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="{at}"/>'
        f'<axis xyz="{axis}"/><limit lower="{low}" upper="{high}" velocity="3" effort="60"/>{more}</joint>'
    )


def finger(name, hand, y, more=""):
    where = {"kind": "prismatic", "at": f"0.08 {y} 0", "axis": f"0 {'1' if y > 0 else '-1'} 0", "limits": "0 0.04"}
    return link(name, 0.05, 0.1) + joint(f"{name}_joint", hand, name, **where, more=more)


def arm(*extra, kind="revolute", prefix=""):
    """Write an arm of three joints, whose hand carries what is given."""
    p = prefix
    parts = [
        f'<link name="{p}ground"/>', link(f"{p}post", 0.1), link(f"{p}upper"), link(f"{p}lower", mass=1.2),
        link(f"{p}hand", 0.08, 0.4),
        joint(f"{p}turn", f"{p}ground", f"{p}post", kind=kind, at="0 0 0.4"),
        joint(f"{p}lift", f"{p}post", f"{p}upper", axis="0 1 0", at="0.1 0 0.1"),
        joint(f"{p}bend", f"{p}upper", f"{p}lower", axis="0 1 0", at="0.3 0 0", limits="0.3 2.5"),
        f'<joint name="{p}mount" type="fixed"><parent link="{p}lower"/><child link="{p}hand"/>'
        '<origin xyz="0.32 0 0"/></joint>',
    ]  # fmt: skip
    return "".join([*parts, *extra])


def robot(*parts):
    return f'<robot name="made">{"".join(parts)}</robot>'


FOLLOWS = '<mimic joint="left_joint"/>'
GRIPPER = robot(arm(finger("left", "hand", 0.02), finger("right", "hand", -0.02, FOLLOWS)))


def two_arms():
    """A torso with an arm on each side."""
    torso = '<link name="room"/>' + link("torso", 0.2, 10.0)
    torso += joint("waist", "room", "torso", at="0 0 0.5")
    for side, y in (("l_", 0.4), ("r_", -0.4)):
        torso += arm(prefix=side)
        torso += (
            f'<joint name="{side}shoulder" type="fixed"><parent link="torso"/><child link="{side}ground"/>'
            f'<origin xyz="0 {y} 0"/></joint>'
        )
    return robot(torso)
