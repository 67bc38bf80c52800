"""Input of DeepRec's scripts: files shared out among workers."""
