"""What docs/cli.md shows is what happens, in its order; and it shows every verb and option."""

import doctest
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from lakespark.cli.app import app
from lakespark.cli.verbs import GlobalOption

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
SESSIONS = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^\$ (?P<line>.*)\n(?P<shown>(?:(?!\$ ).*\n)*)", re.MULTILINE)
CALL = re.compile(r"(?:printf (?P<given>\S+|'[^']*') \| )?lakespark (?P<words>.*?)(?P<is_quiet> 2> log)?")


class Shell:
    """Runs the lines of a session: the command in process, others in bash."""

    def __init__(self, cli):
        self.cli = cli
        self.code = 0

    def run(self, line):
        """What a line prints."""
        if line.startswith("export "):
            self.cli.environment.update(word.split("=", 1) for word in line.split()[1:])
            return ""
        call = CALL.fullmatch(line)
        if call is None:
            return subprocess.run(
                ["bash", "-c", f"(exit {self.code}); {line}"], capture_output=True, text=True, timeout=60
            ).stdout
        given = call["given"] and shlex.split(call["given"])[0].encode().decode("unicode_escape")
        result = self.cli.invoke(*shlex.split(call["words"]), given=given)
        self.code = result.exit_code
        return result.stdout if call["is_quiet"] else result.output


def test_the_sessions_of_the_page_print_what_it_shows(cli):
    shell, steps = Shell(cli), [step for session in SESSIONS for step in STEP.finditer(session)]
    assert len(steps) > 40
    for step in steps:
        printed = shell.run(step["line"])
        is_same = doctest.OutputChecker().check_output(step["shown"], printed, doctest.ELLIPSIS)
        assert is_same, f"$ {step['line']}\nexpected:\n{step['shown']}\ngot:\n{printed}"


def verbs(group=app, name=""):
    for word, command in group.commands.items():
        if isinstance(command, click.Group) and command.name != "show":
            yield from verbs(command, f"{name}{word} ")
        else:
            yield f"{name}{word}", command.commands["commit"] if isinstance(command, click.Group) else command


@pytest.mark.parametrize(("name", "command"), list(verbs()), ids=[name for name, _ in verbs()])
def test_every_verb_and_option_is_in_the_table(name, command):
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}`"))
    shared = {"all commits": re.search(r"Options of all commits: (.*?)\.", PAGE)[1]}
    shared["all merges"] = shared["all commits"] + "`--strategy``--resolve`"
    documented = row + "".join(text for words, text in shared.items() if words in row)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not isinstance(parameter, GlobalOption):
            assert any(option in documented for option in parameter.opts), parameter.opts


def test_links_to_headings_lead_somewhere():
    headings = {line.lower().replace(" ", "-") for line in re.findall(r"^#+ (.*)", PAGE, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) <= headings
