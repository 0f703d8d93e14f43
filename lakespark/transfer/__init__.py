"""Folders into a branch and out of a ref: many files at once, in parallel, with progress."""

from lakespark.transfer.download import download_file, download_folder
from lakespark.transfer.progress import OnProgress, Progress, Transferred
from lakespark.transfer.upload import upload_file, upload_folder

__all__ = [
    "OnProgress",
    "Progress",
    "Transferred",
    "download_file",
    "download_folder",
    "upload_file",
    "upload_folder",
]
