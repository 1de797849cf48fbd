"""instructor and langchain's with_structured_output: pydantic classes filled by whatever way each library asks for them."""
import pytest

CLASS = """
from enum import Enum
from typing import Literal, Optional
from pydantic import BaseModel, Field

class Kind(str, Enum):
    fox = "fox"
    bear = "bear"

class Friend(BaseModel):
    name: str = Field(max_length=12)
    kind: Kind

class Animal(BaseModel):
    \"\"\"An animal of a story.\"\"\"
    name: str = Field(max_length=16)
    age: int = Field(ge=0, le=40)
    mood: Literal["glad", "sad"]
    friends: list[Friend] = Field(max_length=2)
    home: Optional[str] = Field(default=None, max_length=10)
"""


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_langchain(script_of, demo, model, method):
    out = script_of(CLASS + f"""
from langchain_openai import ChatOpenAI
llm = ChatOpenAI(base_url={demo.url + "/v1"!r}, api_key="none", model={model!r}, temperature=1, seed=3, max_tokens=400, max_retries=0)
method = {method!r}
class Free(BaseModel):
    model_config = {{"extra": "allow"}}
a = llm.with_structured_output(Free if method == "json_mode" else Animal, method=method, include_raw=True).invoke(
    "Tell me of an animal, as JSON.")
assert a["parsing_error"] is None and a["parsed"] is not None, a
if method != "json_mode":
    assert isinstance(a["parsed"], Animal) and a["parsed"].mood in ("glad", "sad"), a
print("fine")
""", group="structured")
    assert out.splitlines()[-1] == "fine"


@pytest.mark.parametrize("mode", ["TOOLS", "TOOLS_STRICT", "JSON_SCHEMA"])
def test_instructor(script_of, demo, model, mode):
    out = script_of(CLASS + f"""
import instructor, openai
raw = openai.OpenAI(base_url={demo.url + "/v1"!r}, api_key="none", max_retries=0)
client = instructor.from_openai(raw, mode=instructor.Mode.{mode})
a = client.chat.completions.create(model={model!r}, response_model=Animal, max_retries=0, max_tokens=400, seed=3, temperature=1,
                                   messages=[{{"role": "user", "content": "Tell me of an animal."}}])
assert isinstance(a, Animal) and 0 <= a.age <= 40 and a.mood in ("glad", "sad"), a
print("fine")
""", group="structured")
    assert out.splitlines()[-1] == "fine"
