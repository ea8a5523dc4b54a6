"""Prompts of other tools, verified on a model as if they had been found here.

Read `test_cases` (files of HarmBench as prompts), then `importing` (prompts as a study, resumable).

    prompts = read_prompts(Path("test_cases.json"), targets=Path("targets.json"))
    import_prompts(prompts, load_model("smollm2"), Path("imported.db")).close()
"""

from lmaudit.imports.importing import ImportSettings, import_prompts
from lmaudit.imports.test_cases import Prompts, read_prompts

__all__ = ["ImportSettings", "Prompts", "import_prompts", "read_prompts"]
