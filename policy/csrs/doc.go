package csrs
