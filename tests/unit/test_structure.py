"""`tools.structure` counts modules and finds places where the structure may be simpler."""

from pathlib import Path

from tests.cli import ROOT
from tools.structure import importers, modules, needless_all, rooms, shared_names

SAMPLE = {
    "room/__init__.py": '"""The face."""\n\nfrom .one import Shape\n\n__all__ = ["Shape"]\n',
    "room/one.py": "from room import two\n\nclass Shape: ...\n\nclass _Hidden: ...\n",
    "room/two.py": "def late():\n    from .three import value\n\n    return value\n",
    "room/three.py": '__all__ = ["value"]\nvalue = 1\n',
    "room/room_pb2.py": "class Shape: ...\n",
    "fast_stdlib/json.py": '__all__ = ["loads"]\n\nclass Shape: ...\n\nclass _Hidden: ...\n',
}


def written(folder: Path) -> Path:
    for name, text in SAMPLE.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_modules_are_counted_without_generated_code(tmp_path: Path) -> None:
    found = [(each.name, each.room, each.lines, each.is_package) for each in modules(written(tmp_path), ["room"])]

    assert found == [
        ("room", "room", 5, True),
        ("room.one", "room", 5, False),
        ("room.three", "room", 2, False),
        ("room.two", "room", 4, False),
    ]


def test_importers_are_found_also_in_functions_and_with_relative_names(tmp_path: Path) -> None:
    found = importers(list(modules(written(tmp_path), ["room"])))

    assert found == {
        "room": {"room.one": False},
        "room.one": {"room": False},
        "room.two": {"room.one": False},
        "room.three": {"room.two": True},
    }


def test_all_is_for_faces_of_packages_and_for_stand_ins(tmp_path: Path) -> None:
    assert list(needless_all(modules(written(tmp_path), ["room", "fast_stdlib"]))) == [Path("room/three.py")]


def test_a_name_of_two_public_classes_is_listed_with_both_places(tmp_path: Path) -> None:
    found = shared_names(modules(written(tmp_path), ["room", "fast_stdlib"]))

    assert found == {"Shape": ["fast_stdlib/json.py:3", "room/one.py:3"]}


def test_the_rooms_are_the_packages_of_the_project() -> None:
    found = rooms((ROOT / "docs" / "design.md").read_text())

    assert sorted(found) == sorted({path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "tools"})
