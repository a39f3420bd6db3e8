"""How are recordings read? One module a format, each giving what its files hold; `readers` finds the one."""
