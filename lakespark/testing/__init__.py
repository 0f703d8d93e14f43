"""What tests of lakespark, and of programs that use it, are made of: shipped with the package."""
