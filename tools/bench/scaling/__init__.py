"""What more ranks would cost than a machine can run: simulated from what a few ranks measured."""
