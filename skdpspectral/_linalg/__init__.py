"""Pure linear algebra: arrays to arrays, without noise, budgets or estimators."""
