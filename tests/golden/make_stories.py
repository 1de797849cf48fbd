"""2,000 tokens of the demo checkpoint's own kind of text: python make_stories.py OUT_JSON   (needs tokenizers)"""

import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "demo"))
import stories  # noqa: E402

r = random.Random(5)
ids = []
tokenizer = Tokenizer.from_file(str(ROOT / "config/demo/tokenizer.json"))
while len(ids) < 2000:
    story = stories.Story(r, length=r.randint(0, 8))
    question, answer = r.choice(list(story.facts.items()))
    text = stories.turn("user", story.text + "\n\n" + question) + stories.turn("assistant", answer)
    ids += tokenizer.encode(text).ids
Path(sys.argv[1]).write_text(json.dumps({"prompt": ids[:2000]}) + "\n")
