"""What is shown of a judgement: objects, harms, what is still to be done."""
