"""The page that shows a planned campaign before anything moves: `page.plan_page`, one file that needs no network."""
