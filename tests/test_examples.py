"""The README's Python runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_readme(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    monkeypatch.chdir(tmp_path)
    scope = {}
    exec(compile(blocks[0], "README.md", "exec"), scope)
    printed = capsys.readouterr().out
    assert "finished at t = 1.5" in printed
    assert (tmp_path / "two_bumps.png").stat().st_size > 10_000
    # 500 tokens: a few standard errors of 1/sqrt(500)
    assert abs(scope["sol"].final.mean() - scope["cloud"].final.mean()).max() < 0.2
