"""What runs outside the host: in the zygote and in the shims.  Standard library only; relative imports in here only."""
