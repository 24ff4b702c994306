"""What can be done with a run afterwards: ask what another ticket had said, play it again."""
