"""Spec documents: YAML text in, a compiled `Spec` and findings out.

read.py -> document.py -> schema.py -> compile.py -> spec.py
files      YAML text      its shape    its meaning   what a session is judged by
"""
