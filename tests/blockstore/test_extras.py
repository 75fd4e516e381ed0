"""Which command installs what is missing."""

from __future__ import annotations

import pytest

from blockstore.errors import MissingExtra
from blockstore.extras import load, missing, room_of

PACKAGES = {
    "apscheduler": "'blocklake[compactor]'",
    "boto3": "'blocklake[s3]'",
    "duckdb": "'blocklake[reader]'",
    "httpx": "'blocklake[client]'",
    "obstore": "'blocklake[cloud]'",
    "prometheus_client": "'blocklake[compactor]'",
    "prometheus_client.core": "'blocklake[compactor]'",
    "pyspark.sql": "'blocklake[spark]'",
    "polars": "polars",
    "blockstore.reader": "--force-reinstall blocklake",
}


@pytest.mark.parametrize("module", PACKAGES)
def test_the_command_installs_the_package(module: str) -> None:
    said = str(missing(ModuleNotFoundError(name=module), "the verb x"))
    assert said.startswith("the verb x needs ")
    assert said.endswith(f"run pip install {PACKAGES[module]}")


def test_where_several_extras_install_it_the_caller_says_which() -> None:
    error = ModuleNotFoundError(name="uvicorn")
    assert "blocklake[compactor]" in str(missing(error, "x"))
    assert "blocklake[reader]" in str(missing(error, "x", "reader"))
    assert "blocklake[compactor]" in str(missing(error, "x", "s3"))


def test_a_part_of_a_room_is_loaded_by_name() -> None:
    assert load("blockstore.compactor.simulated", "ROLES", "a simulation")
    with pytest.raises(MissingExtra, match=r"^a simulation needs blockstore\.nothing, which this"):
        load("blockstore.nothing", "ROLES", "a simulation")


def test_a_room_is_named_by_its_modules() -> None:
    assert room_of("blockstore.reader.query") == "reader"
    assert room_of("blockstore.index") is None
    assert room_of("elsewhere") is None
