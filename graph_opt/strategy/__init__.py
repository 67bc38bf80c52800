"""DeepRec's strategies of synchronous training: scopes in which scripts build their models."""
