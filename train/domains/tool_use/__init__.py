"""Tasks that are done by calls: checked by the state that they leave, the answer, and how it was come by."""
