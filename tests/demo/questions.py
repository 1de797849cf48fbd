"""Questions whose answers the demo checkpoint can give: facts of a story, entries of a list."""
import random

import stories

ANSWER = "<|im_start|>assistant\n"


def about_stories(n, seed=99):
    """n pairs (prompt, answer): a story of up to some 400 tokens and a question about one of its facts."""
    r, out = random.Random(seed), []
    while len(out) < n:
        story = stories.Story(r, length=r.choice([0, 2, 4, 8]))
        question, answer = r.choice(list(story.facts.items()))
        if answer.rstrip(".").split(" ")[-1] in story.text:
            out.append((stories.turn("user", story.text + "\n\n" + question) + ANSWER, answer))
    return out


def about_lists(n, seed=99):
    """n pairs (prompt, answer): a list of 8 to 16 names with what each has, and one to look up."""
    r, out = random.Random(seed), []
    while len(out) < n:
        text, has = stories.listing(r, r.randint(8, 16))
        name = r.choice(list(has))
        talk = stories.turn("user", text) + stories.turn("assistant", "Thank you.")
        out.append((talk + stories.turn("user", f"What has {name}?") + ANSWER, f"{name} has {has[name]}."))
    return out
