"""How are recordings read? One module a format, each giving samples in SI units on the joint side."""
