"""The session view: the web page that shows sessions (`files`), and what it asks of us (`routes`)."""
