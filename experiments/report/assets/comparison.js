// All that moves on a comparison: tables that sort.
document.querySelectorAll('table.sortable').forEach(table => Tables.sortable(table));
