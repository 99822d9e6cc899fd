"""Single stages: their costs as arrays, tables of their times, and near exact solutions."""
