"""A configuration: declared keys, one file, the environment over it, and every problem at once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from blockstore.errors import Invalid
from blockstore.service import kinds
from blockstore.service.config import ConfigFile, Key, Named, Secret, Section
from tests.repo.config_text import page, toml_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Oven:
    heat_s: float
    room_bytes: int
    cakes: tuple[tuple[str, str], ...]
    key: Secret | None = None
    fan: bool = False

    def __post_init__(self) -> None:
        if self.heat_s > self.room_bytes:
            raise Invalid("heat is larger than room")


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    colour: str


HEAT = Key(name="heat", sets="heat_s", default="15m", read=kinds.duration_s, sentence="How hot.")
OVEN = Section(
    name="oven",
    sentence="The oven.",
    build=Oven,
    keys=(
        HEAT,
        Key(
            name="room", sets="room_bytes", default="512MiB", read=kinds.size, sentence="How large."
        ),
        Key(name="cakes", default=("kind=plum",), read=kinds.labels, sentence="What | is in it."),
        Key(name="key", secret=True, read=kinds.text, sentence="What opens it."),
        Key(name="fan", default=False, read=kinds.switch, sentence="Whether it blows."),
    ),
)
DOOR = Section(
    name="oven_door",
    sentence="Its door.",
    build=Door,
    keys=(
        Key(name="colour", default="red", read=kinds.one_of("red", "blue"), sentence="Its colour."),
    ),
)
SHELVES = Named(name="shelves", sentence="Shelves that differ.", keys=(HEAT,), example="upper")
FILE = ConfigFile(
    name="kitchen.toml",
    about="A kitchen.",
    sections=(OVEN, DOOR),
    named=(SHELVES,),
    check=lambda config: (
        ["a red door burns"] if config.of(OVEN).fan and config.of(DOOR).colour == "red" else []
    ),
)
DEFAULT = Oven(heat_s=900, room_bytes=512 << 20, cakes=(("kind", "plum"),))


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "kitchen.toml"
    path.write_text(text)
    return path


def test_without_a_file_every_key_has_its_default() -> None:
    config = FILE.load(None, {})
    assert config.of(OVEN) == DEFAULT
    assert config.of(DOOR) == Door(colour="red")
    assert config.overrides(SHELVES) == {}


def test_a_file_overrides_defaults_and_the_environment_overrides_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, '[oven]\nheat = "2m"\nroom = "1GiB"\n[oven_door]\ncolour = "red"\n')
    variables = {
        "BLOCKSTORE_OVEN_HEAT": "30s",
        "BLOCKSTORE_OVEN_CAKES": "a=1, b=2",
        "BLOCKSTORE_OTHER_HEAT": "x",
    }
    config = FILE.load(
        path, variables | {"BLOCKSTORE_OVEN_DOOR_COLOUR": "blue", "BLOCKSTORE_OVEN_FAN": "yes"}
    )
    assert config.of(OVEN) == Oven(
        heat_s=30, room_bytes=1 << 30, cakes=(("a", "1"), ("b", "2")), fan=True
    )
    assert config.of(DOOR) == Door(colour="blue")


def test_all_problems_of_file_and_environment_are_told_at_once(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'oops = 1\n[oven]\nhaet = "1m"\nroom = "1 mile"\n[shelf]\n[shelves.upper]\nheta = 1\nheat '
        '= "soon"\n[shelves]\nlow = 3\n',
    )
    with pytest.raises(Invalid) as found:
        FILE.load(path, {"BLOCKSTORE_OVEN_FAN": "maybe", "BLOCKSTORE_OVEN_DOOR_COLOR": "red"})
    message = str(found.value)
    for part in (
        "unknown table [oops]",
        "unknown table [shelf]",
        "did you mean shelves?",
        "did you mean heat?",
        "'1 mile'",
        "'soon'",
        "low",
        "'maybe'",
        "the environment variable BLOCKSTORE_OVEN_DOOR_COLOR: did you mean colour?",
    ):
        assert part in message, part


def test_values_that_do_not_agree_are_refused_within_and_between_sections() -> None:
    with pytest.raises(Invalid, match="heat is larger"):
        FILE.load(None, {"BLOCKSTORE_OVEN_ROOM": "1"})
    with pytest.raises(Invalid, match="a red door burns"):
        FILE.load(None, {"BLOCKSTORE_OVEN_FAN": "on"})


def test_overrides_by_name_hold_only_what_was_written(tmp_path: Path) -> None:
    path = written(tmp_path, '[shelves."upper/left"]\nheat = "1s"\n[shelves.lower]\n')
    assert FILE.load(path, {}).overrides(SHELVES) == {"upper/left": {"heat_s": 1}, "lower": {}}


def test_a_secret_comes_from_the_environment_or_a_file_and_is_never_shown(tmp_path: Path) -> None:
    hidden = tmp_path / "key"
    hidden.write_text("sesame\n")
    path = written(tmp_path, f'[oven]\nkey_file = "{hidden}"\n')
    for config in (
        FILE.load(path, {}),
        FILE.load(None, {"BLOCKSTORE_OVEN_KEY": "sesame"}),
        FILE.load(None, {"BLOCKSTORE_OVEN_KEY_FILE": str(hidden)}),
    ):
        assert config.of(OVEN).key == Secret("sesame")
        assert "sesame" not in repr(config)
    with pytest.raises(Invalid, match="none stands in a file of settings: set key_file") as found:
        FILE.load(written(tmp_path, '[oven]\nkey = "sesame"\n'), {})
    assert "sesame" not in str(found.value)
    with pytest.raises(Invalid, match="cannot be read"):
        FILE.load(None, {"BLOCKSTORE_OVEN_KEY_FILE": str(tmp_path / "nothing")})


@pytest.mark.parametrize(
    ("text", "part"), [("[oven", "is not TOML"), ("oven = 3", "expected a table")]
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(Invalid, match=part):
        FILE.load(written(tmp_path, text), {})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"no configuration file .*nothing\.toml"):
        FILE.load(tmp_path / "nothing.toml", {})
    with pytest.raises(Invalid, match="cannot be read"):
        FILE.load(tmp_path, {})


def test_the_file_that_is_written_from_the_declaration_loads_as_the_defaults(
    tmp_path: Path,
) -> None:
    text = toml_file(FILE)
    assert FILE.load(written(tmp_path, text), {}) == FILE.load(None, {})
    assert tomllib.loads(text)["oven"].keys() == {"heat", "room", "cakes", "key_file", "fan"}
    uncommented = text.replace('# [shelves."upper"]', '[shelves."upper"]').replace(
        '# heat = "15m"', 'heat = "15m"'
    )
    assert FILE.load(written(tmp_path, uncommented), {}).overrides(SHELVES) == {
        "upper": {"heat_s": 900}
    }


def test_the_page_has_every_key_with_its_variable() -> None:
    text = page("Kitchens", "All of them.", [FILE])
    for part in (
        "`BLOCKSTORE_OVEN_DOOR_COLOUR`",
        "What \\| is in it.",
        "`key_file`",
        '### [shelves."upper"]',
    ):
        assert part in text


@pytest.mark.parametrize(
    ("read", "value", "part"),
    [
        (kinds.count, 1.5, "a whole number"),
        (kinds.count, True, "a whole number"),
        (kinds.number, "nan", "a number"),
        (kinds.number, None, "a number"),
        (kinds.switch, 1, "true or false"),
        (kinds.text, 1, "a text"),
        (kinds.labels, ["eu1"], "cluster=eu1"),
        (kinds.labels, 7, "a list"),
        (kinds.folder, 7, "a path"),
        (kinds.one_of("a", "b"), "c", "a or b"),
        (kinds.between(kinds.count, 1, 3), 4, "1 to 3"),
        (kinds.between(kinds.count, 1), "0", "at least 1"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_its_name(
    read: kinds.Reader, value: object, part: str
) -> None:
    with pytest.raises(Invalid, match=f"the key is .*{part}|the key has .*{part}"):
        read(value, "the key")


def test_values_read_alike_from_toml_and_from_the_environment() -> None:
    assert kinds.count("7", "k") == kinds.count(7, "k") == 7
    assert kinds.number("1.5", "k") == 1.5
    assert kinds.switch("Off", "k") is False
    assert kinds.items(kinds.count)("1, 2", "k") == kinds.items(kinds.count)([1, 2], "k") == (1, 2)
    assert kinds.optional(kinds.count)("", "k") is None
    assert kinds.optional(kinds.count)("3", "k") == 3
    assert kinds.cores("cores", "k") >= 1
    assert kinds.path("", "k") is None
