"""What runs have shown: tables, intervals, the front of cost and success, and the page."""
