"""The scores of CORE (papers/000).

running         what the product computes: the scores kept call by call, without the path
refine          PC+HLR (section 4) in polynomial time, which the product computes, too
paper_formulas  what both are tested against: the equations as the paper writes them, on a whole path
"""
