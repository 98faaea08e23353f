"""Where every task of the process is: what SIGQUIT prints, as a thread dump does for a JVM."""

import linecache

import trio


def format_tasks() -> str:
    """Return the tree of all tasks, each with the stack that it waits in, the innermost frame last."""
    root = trio.lowlevel.current_root_task()
    return "" if root is None else "\n".join(_lines(root, ""))


def _lines(task: trio.lowlevel.Task, indent: str) -> list[str]:
    lines = [f"{indent}{task.name}"]
    for frame, number in task.iter_await_frames():
        code = frame.f_code
        text = linecache.getline(code.co_filename, number).strip()
        lines.append(f"{indent}    {code.co_filename}:{number} in {code.co_name}: {text}")
    for nursery in task.child_nurseries:
        for child in sorted(nursery.child_tasks, key=lambda each: each.name):
            lines += _lines(child, indent + "  ")
    return lines
