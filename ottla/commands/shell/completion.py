"""``ottla completion``: the script that completes commands and options in a shell."""

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_OTTLA_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in a shell.

    \b
    bash:  eval "$(ottla completion bash)"      in ~/.bashrc
    zsh:   eval "$(ottla completion zsh)"       in ~/.zshrc
    fish:  ottla completion fish > ~/.config/fish/completions/ottla.fish
    """
    completion = get_completion_class(shell)
    assert completion is not None
    root = ctx.find_root()
    click.echo(completion(root.command, {}, root.info_name or "ottla", _VARIABLE).source())
