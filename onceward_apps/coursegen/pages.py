PAGES = None
