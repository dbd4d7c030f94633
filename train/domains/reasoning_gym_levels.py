"""How hard each level of reasoning-gym's tasks is (version 0.1.25). Data only: nothing of it is imported here.

A task's own curriculum has levels, but they begin where a small model cannot, and end where a prompt has 20,000
characters or an item takes seconds; some of them its own configuration refuses. So most levels are written down here.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Knob: TypeAlias = "int | float | tuple[int, int] | tuple[float, float]"

CURRICULUM: Final = (
    "ab", "advanced_geometry", "aiw", "arc_1d", "arc_agi", "base_conversion", "bf", "bitwise_arithmetic", "boxnet",
    "calendar_arithmetic", "complex_arithmetic", "cryptarithm", "decimal_arithmetic", "decimal_chain_sum", "dice",
    "family_relationships", "graph_color", "intermediate_integration", "kakurasu", "knights_knaves", "mini_sudoku",
    "path_star", "polynomial_equations", "power_function", "prime_factorization",
    "propositional_logic", "rearc", "rush_hour", "simple_equations", "simple_geometry", "simple_integration",
    "string_splitting", "string_synthesis", "sudoku", "survo", "syllogism", "time_intervals", "tsumego",
    "word_ladder", "zebra_puzzles",
)  # fmt: skip
"""Tasks whose own first three levels are taken as they are."""

BY_LENGTH: Final = ("acre", "gsm_symbolic", "list_functions")
"""Tasks without any knob. Of three draws the shortest question is level 0, the longest level 2."""

KNOBS: Final[dict[str, dict[str, tuple[Knob, ...]]]] = {
    # By task: knob → its value at level 0, 1, 2, …; a pair is the knob's `min_…` and `max_…`.
    "basic_arithmetic": {"terms": ((2, 2), (2, 3), (3, 4), (4, 5)), "digits": ((1, 1), (1, 2), (2, 2), (2, 3))},
    "binary_alternation": {"n": ((4, 8), (8, 14), (14, 24))},
    "binary_matrix": {"n": ((3, 3), (4, 5), (6, 7))},
    "caesar_cipher": {"rotation": ((1, 3), (1, 10), (1, 25)), "words": ((3, 4), (4, 6), (6, 10))},
    "chain_sum": {"terms": ((2, 2), (2, 2), (2, 3), (3, 4), (4, 6)),
                  "digits": ((1, 1), (1, 2), (2, 2), (2, 3), (3, 4))},
    "circuit_logic": {"terms": ((2, 2), (3, 3), (4, 4)), "inputs": ((2, 2), (2, 3), (3, 4))},
    "codeio": {"difficulty": (6, 7, 8)},
    "coin_flip": {"trials": ((3, 4), (5, 7), (8, 12))},
    "color_cube_rotation": {"rotations": ((1, 1), (2, 2), (3, 4))},
    "count_bits": {"n": ((1, 15), (16, 127), (128, 4095), (4096, 1_000_000))},
    "count_primes": {"n": ((1, 30), (30, 200), (200, 1000))},
    "countdown": {"numbers": ((3, 3), (3, 4), (4, 5)), "value": ((1, 10), (1, 20), (1, 50)),
                  "target": ((5, 50), (10, 99), (50, 300))},
    "course_schedule": {"num_courses": ((4, 5), (6, 8), (9, 12)), "num_prerequisites": ((1, 2), (1, 2), (1, 2)),
                        "cycle_length": ((3, 3), (3, 4), (3, 5))},
    "emoji_mystery": {"words_in_sentence": ((1, 3), (3, 6), (6, 10))},
    "figlet_font": {"word_len": ((3, 3), (4, 5), (6, 7))},
    "fraction_simplification": {"value": ((1, 10), (1, 50), (10, 500)), "factor": ((2, 5), (2, 12), (5, 60))},
    "futoshiki": {"board_size": ((4, 4), (4, 4), (5, 5)), "difficulty": ((0, 0), (1, 1), (1, 1))},
    "game_of_life": {"grid_size_x": (4, 5, 7), "grid_size_y": (4, 5, 7), "filled_cells": (5, 8, 16),
                     "simulation_steps": (1, 1, 2)},
    "game_of_life_halting": {"grid_size_x": (12, 16, 20), "grid_size_y": (12, 16, 20), "num_oscillators": (2, 4, 6)},
    "gcd": {"numbers": ((2, 2), (2, 2), (2, 3)), "value": ((2, 30), (10, 200), (50, 2000))},
    "group_anagrams": {"anagram_groups": ((2, 2), (2, 3), (4, 5)), "words_per_group": ((2, 2), (2, 3), (2, 4))},
    "isomorphic_strings": {"string_length": ((3, 4), (5, 8), (10, 16))},
    "jugs": {"num_jugs": (3, 3, 3), "difficulty": (5, 7, 9)},
    "knight_swap": {"nodes": ((8, 9), (9, 10), (10, 12)), "pieces": ((1, 1), (1, 2), (1, 2)),
                    "steps": ((1, 8), (2, 12), (4, 16))},
    "largest_island": {"rows": ((4, 4), (5, 6), (7, 9)), "cols": ((4, 4), (5, 6), (7, 9)),
                       "num_islands": ((1, 2), (2, 3), (3, 5)), "island_size": ((1, 4), (2, 6), (3, 9))},
    "lcm": {"numbers": ((2, 2), (2, 2), (2, 3)), "value": ((2, 12), (5, 40), (10, 100))},
    "leg_counting": {"animals": ((1, 2), (2, 4), (4, 8)), "instances": ((1, 3), (1, 8), (2, 15))},
    "letter_counting": {"words": ((2, 4), (5, 8), (9, 15), (16, 30))},
    "letter_jumble": {"word_len": ((2, 5), (3, 8), (4, 12)), "words": ((1, 2), (2, 4), (4, 8)),
                      "corruption_level": ((0.1, 0.3), (0.2, 0.6), (0.4, 0.9))},
    "mahjong_puzzle": {"num_rounds": ((3, 5), (6, 12), (13, 24))},
    "manipulate_matrix": {"rows": ((2, 2), (3, 3), (4, 6)), "cols": ((2, 2), (3, 3), (4, 6)),
                          "transforms": ((1, 1), (1, 2), (3, 4))},
    "maze": {"dist": ((3, 4), (4, 7), (6, 12)), "grid_size": ((5, 5), (6, 8), (9, 12))},
    "modulo_grid": {"size_x": (8, 10, 14), "size_y": (8, 10, 14), "max_divisor": (3, 6, 12), "max_target": (2, 5, 11)},
    "n_queens": {"n": (6, 7, 8), "remove": ((1, 2), (2, 4), (4, 7))},
    "needle_haystack": {"num_statements": ((3, 6), (10, 20), (40, 60), (150, 200))},
    "number_filtering": {"numbers": ((3, 4), (5, 7), (8, 14)), "decimals": ((0, 0), (0, 1), (1, 3)),
                         "value": ((0.0, 20.0), (-50.0, 50.0), (-500.0, 500.0))},
    "number_format": {"num_candidates": ((2, 2), (3, 4), (5, 8)), "n": ((1, 100), (10, 10_000), (1_000, 1_000_000)),
                      "max_delta": (20.0, 10.0, 2.0)},
    "number_sequence": {"terms": ((4, 4), (4, 6), (5, 8)), "value": ((0, 10), (-20, 20), (-100, 100)),
                        "max_complexity": (1, 2, 3)},
    "number_sorting": {"numbers": ((2, 3), (4, 6), (8, 12)), "decimals": ((0, 0), (0, 1), (0, 2)),
                       "value": ((0.0, 20.0), (-50.0, 50.0), (-500.0, 500.0))},
    "palindrome_generation": {"length": ((3, 4), (5, 8), (9, 16))},
    "palindrome_partitioning": {"string_len": ((3, 4), (5, 6), (7, 9)),
                                "substring_palindrome_len": ((1, 2), (1, 3), (1, 4))},
    "polynomial_multiplication": {"terms": ((1, 2), (2, 3), (2, 4)), "value": ((1, 5), (1, 10), (1, 50)),
                                  "degree": ((0, 1), (0, 2), (0, 3)), "polynomials": ((2, 2), (2, 2), (2, 3))},
    "pool_matrix": {"rows": ((2, 3), (4, 5), (6, 8)), "cols": ((2, 3), (4, 5), (6, 8)),
                    "pool_size": ((2, 2), (2, 3), (2, 3))},
    "products": {"digits": ((1, 1), (1, 2), (2, 2), (2, 4)), "terms": ((2, 2), (2, 2), (2, 2), (2, 3))},
    "puzzle24": {"value": ((1, 6), (1, 8), (1, 10))},
    "quantum_lock": {"difficulty": (1, 3, 6)},
    "ransom_note": {"note_length": ((3, 5), (6, 10), (12, 20)), "magazine_length": ((6, 10), (14, 24), (30, 60))},
    "rectangle_count": {"max_rectangles": (4, 7, 12), "width": (24, 32, 48), "height": (14, 20, 28)},
    "rotate_matrix": {"n": ((2, 2), (3, 4), (5, 6)), "rotations": ((1, 1), (1, 2), (1, 5))},
    "rotten_oranges": {"n": ((3, 4), (5, 6), (7, 9))},
    "rubiks_cube": {"cube_size": (3, 3, 3), "scramble_steps": ((1, 2), (3, 5), (6, 10))},
    "self_reference": {"difficulty": (1, 3, 6)},
    "sentence_reordering": {"words_in_sentence": ((3, 4), (5, 7), (8, 14))},
    "shortest_path": {"rows": ((3, 4), (5, 6), (7, 9)), "cols": ((3, 4), (5, 6), (7, 9))},
    "sokoban": {"w": ((6, 6), (6, 7), (7, 8)), "h": ((6, 6), (6, 7), (7, 8)), "boxes": ((1, 2), (2, 3), (3, 4)),
                "max_depth": (30, 40, 60)},
    "spell_backward": {"word_len": ((3, 3), (4, 5), (6, 8), (9, 12))},
    "spiral_matrix": {"n": ((2, 2), (3, 3), (4, 6))},
    "string_insertion": {"string_length": ((5, 7), (8, 14), (16, 30))},
    "string_manipulation": {"string_length": ((8, 12), (12, 18), (18, 28)), "num_rules": ((6, 7), (8, 10), (10, 14))},
    "tower_of_hanoi": {"disks": ((2, 4), (3, 5), (4, 6)), "pegs": ((3, 6), (3, 6), (3, 6))},
    "word_sequence_reversal": {"words": ((2, 3), (4, 6), (7, 12))},
    "word_sorting": {"words": ((2, 3), (4, 6), (7, 12)), "word_length": ((3, 5), (3, 8), (3, 12))},
}  # fmt: skip

NAMES: Final = tuple(sorted((*CURRICULUM, *BY_LENGTH, *KNOBS)))


def num_levels(name: str) -> int:
    """Levels of a task."""
    return len(next(iter(KNOBS[name].values()))) if name in KNOBS else 3


def settings(name: str, level: int) -> dict[str, int | float]:
    """The configuration of a task with knobs at a level."""
    made: dict[str, int | float] = {}
    for knob, values in KNOBS[name].items():
        value = values[level]
        if isinstance(value, tuple):
            made[f"min_{knob}"], made[f"max_{knob}"] = value
        else:
            made[knob] = value
    return made
