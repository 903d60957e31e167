"""What has been done: commit records read without a JVM, and the ledger of runs."""
