"""Prompts that are nobody's domain, and short questions: what a model is asked so that its own words can be kept."""

from __future__ import annotations

from itertools import product
from typing import Final

FORMS: Final = (
    "What is {}?",
    "Explain {} to a child.",
    "Tell me something interesting about {}.",
    "Write two sentences about {}.",
    "Write a short poem about {}.",
    "Give me three tips about {}.",
    "Why do people care about {}?",
    "Summarise the history of {} briefly.",
    "Write a friendly note to a colleague about {}.",
    "How would you begin a story about {}?",
    "What should a beginner know about {}?",
    "List five words that have to do with {}.",
)
TOPICS: Final = (
    "rain", "bicycles", "bread", "the moon", "volcanoes", "chess", "gardening", "whales", "tea", "sleep", "bridges",
    "music", "photosynthesis", "gravity", "libraries", "mountains", "maps", "cooking rice", "painting", "trains",
    "the ocean", "friendship", "computers", "birds", "winter", "coffee", "money", "running", "glass", "stars",
    "markets", "clocks", "forests", "kites", "languages", "electricity", "cheese", "deserts", "schools", "email",
)  # fmt: skip
GREETINGS: Final = (
    "Hello!", "Hi, how are you?", "Good morning.", "Who are you?", "What can you do?", "Thank you!", "Can you help me?",
    "Say hello.", "Tell me a joke.", "I am bored.", "What should I cook tonight?", "Goodbye.",
)  # fmt: skip
PROMPTS: Final = (*GREETINGS, *(form.format(topic) for form, topic in product(FORMS, TOPICS)))
QUESTION_FORMS: Final = {
    "What is the capital city of {}?": (
        "France", "Italy", "Spain", "Germany", "Poland", "Japan", "China", "India", "Egypt", "Kenya", "Brazil", "Peru",
        "Canada", "Mexico", "Norway", "Greece", "Turkey", "Russia", "Cuba", "Ireland",
    ),
    "On which continent is {}?": ("Chile", "Nigeria", "Thailand", "Portugal", "Iran", "Ghana", "Sweden", "Vietnam"),
    "What is the plural form of the word {}?": (
        "cat", "box", "city", "leaf", "mouse", "child", "bus", "tooth", "hero", "baby", "sheep", "watch",
    ),
    "Tell me the opposite of {}.": (
        "hot", "big", "early", "happy", "light", "open", "fast", "rich", "empty", "strong", "loud", "near",
    ),
    "What is the past tense of the verb {}?": (
        "go", "see", "walk", "eat", "write", "sing", "play", "buy", "run", "think", "swim", "make",
    ),
    "Which day comes after {}?": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "Which month comes before {}?": ("February", "April", "June", "August", "October", "December"),
    "What colour is {}?": ("grass", "snow", "a banana", "coal", "the sky", "a carrot", "blood", "an elephant"),
    "What kind of thing is {}?": ("a rose", "a hammer", "an eagle", "a violin", "gold", "a shark", "an apple", "a bus"),
    "Is this said in a good or in a bad mood: {}": (
        "I love this place!", "What a terrible day.", "The food was cold again.", "We had so much fun.",
        "My phone broke.", "You made me smile.",
    ),
    "How much is {}?": (
        "3 plus 4", "12 plus 9", "27 plus 35", "48 plus 61", "130 plus 45", "9 minus 2", "30 minus 12", "85 minus 27",
        "100 minus 64", "2 times 6", "7 times 8", "9 times 4", "11 times 5", "14 times 3", "half of 18", "double 16",
    ),
    "Which number comes next: {}?": ("1, 2, 3, 4", "2, 4, 6, 8", "5, 10, 15, 20", "30, 27, 24, 21", "7, 9, 11, 13"),
    "Which is larger, {}?": ("8 or 5", "12 or 21", "99 or 101", "340 or 304"),
    "Repeat this word: {}": ("lantern", "river", "velvet", "harbour", "tomato", "compass"),
}  # fmt: skip
ENDINGS: Final = ("", " Answer in a few words.")
QUESTIONS: Final = tuple(
    form.format(about) + ending
    for form, topics in QUESTION_FORMS.items()
    for about in topics
    for ending in ENDINGS
)
"""With short answers, which a policy unlearns first: it has learned to guess in one word."""
