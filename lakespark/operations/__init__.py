"""What a repository can do, built on ledger, staging, trees and algebra. The public classes are thin over it."""
