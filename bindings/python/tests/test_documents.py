"""The examples of the documents run as they stand there."""

import ast
import asyncio
import doctest
import inspect
import pathlib
import re
from importlib import metadata

import pytest
from packaging import requirements

import tcpx

ROOT = pathlib.Path(__file__).parents[3]


def test_the_example_of_the_package_runs():
    outcome = doctest.testmod(tcpx)
    assert outcome.attempted == 2 and outcome.failed == 0


def examples(document):
    text = (ROOT / document).read_text()
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


@pytest.mark.parametrize("document", ["README.md", "docs/python.md"])
def test_the_examples_of_a_document_run(document):
    found = examples(document)
    assert found

    async def run():
        names = {}
        for example in found:
            code = compile(example, document, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)
            if inspect.isawaitable(result):
                await result
        for agent in [it for it in names.values() if isinstance(it, tcpx.Agent)]:
            await agent.aclose()

    asyncio.run(run())


def test_the_backend_for_nixl_is_an_extra():
    wheel = metadata.metadata("tcpx")
    assert wheel.get_all("Provides-Extra") == ["nixl"]
    (needed,) = [requirements.Requirement(text) for text in metadata.requires("tcpx")]
    assert (needed.name, str(needed.specifier)) == ("nixl-tcpx", f"=={wheel['Version']}")
    assert needed.marker.evaluate({"extra": "nixl"}) and not needed.marker.evaluate({"extra": ""})


def test_every_public_name_has_a_docstring():
    for name in tcpx.__all__:
        thing = getattr(tcpx, name)
        assert thing.__doc__, name
        for member, value in vars(thing).items():
            if not member.startswith("_") and callable(value):
                assert value.__doc__, f"{name}.{member}"
