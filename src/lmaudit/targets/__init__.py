"""What a model should say: lists of targets, and which of their lines an audit can use.

    from lmaudit.targets import load_targets, choose
    choose(load_targets("senators"), vocabulary, lengths={3})

Read `lists` (senators, and files of one's own), `civil_comments` (toxic comments of the user's own copy), `choosing`.
"""

from __future__ import annotations

from lmaudit.targets.choosing import Chosen, choose
from lmaudit.targets.civil_comments import CommentColumns, comment_files, toxic_comments
from lmaudit.targets.lists import NAMED, load_targets

__all__ = ["NAMED", "Chosen", "CommentColumns", "choose", "comment_files", "load_targets", "toxic_comments"]
