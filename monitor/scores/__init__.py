"""The scores of CORE (papers/000).

paper_formulas  the equations as the paper writes them, on a whole path
running     the same numbers kept call by call, without the path
refine      PC+HLR (section 4) in polynomial time
"""
