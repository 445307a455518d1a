"""The prompts that the side-by-side benches share."""

from __future__ import annotations

from dataclasses import replace

from experiments.tasks import Instance, build_task


def tool_calls(n: int, examples: bool) -> list[Instance]:
    """The first n tool calls: with the worked examples of the task `bfcl`, or as bare requests, on which most mass is lost."""
    instances = build_task("bfcl").instances(n)
    if examples:
        return instances
    bare = []
    for instance in instances:
        assert not isinstance(instance.prompt, str)
        bare.append(replace(instance, prompt=[instance.prompt[0], instance.prompt[-1]]))
    return bare
