CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT, country TEXT, born INTEGER);
CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, author_id INTEGER REFERENCES authors(id), year INTEGER, pages INTEGER, genre TEXT);
CREATE TABLE loans (id INTEGER PRIMARY KEY, book_id INTEGER REFERENCES books(id), member TEXT, loaned TEXT, returned TEXT);

INSERT INTO authors VALUES
  (1, 'Ingrid Holm', 'Norway', 1951), (2, 'Tomas Vega', 'Spain', 1968), (3, 'Aoife Brennan', 'Ireland', 1975),
  (4, 'Kenji Mori', 'Japan', 1949), (5, 'Lucia Conti', 'Italy', 1982), (6, 'Samuel Okoye', 'Nigeria', 1960),
  (7, 'Marie Dubois', 'France', 1977), (8, 'Peter Walsh', 'Ireland', 1938);

INSERT INTO books VALUES
  (1, 'The Quiet Fjord', 1, 1984, 312, 'novel'), (2, 'Winter Letters', 1, 1991, 208, 'novel'),
  (3, 'Dust Road', 2, 2003, 264, 'crime'), (4, 'The Glass Key Maker', 2, 2010, 341, 'crime'),
  (5, 'Salt and Bread', 3, 2008, 187, 'poetry'), (6, 'Harbour Songs', 3, 2015, 96, 'poetry'),
  (7, 'A Garden in Kyoto', 4, 1979, 402, 'novel'), (8, 'Paper Lanterns', 4, 1988, 255, 'history'),
  (9, 'The Clockwork City', 5, 2018, 528, 'fantasy'), (10, 'The Iron Bridge', 5, 2021, 611, 'fantasy'),
  (11, 'Market Day', 6, 1996, 230, 'novel'), (12, 'River of Kings', 6, 2001, 455, 'history'),
  (13, 'Midnight in Lyon', 7, 2012, 298, 'crime'), (14, 'The Last Ferry', 8, 1972, 176, 'novel');

INSERT INTO loans VALUES
  (1, 3, 'Nora', '2024-01-05', '2024-01-19'), (2, 9, 'Omar', '2024-01-08', '2024-02-01'),
  (3, 1, 'Nora', '2024-01-20', '2024-02-03'), (4, 13, 'Ruth', '2024-01-22', NULL),
  (5, 9, 'Felix', '2024-02-02', '2024-02-28'), (6, 5, 'Omar', '2024-02-04', '2024-02-11'),
  (7, 12, 'Ruth', '2024-02-10', '2024-03-09'), (8, 9, 'Nora', '2024-03-01', NULL),
  (9, 3, 'Felix', '2024-03-03', '2024-03-15'), (10, 7, 'Ivy', '2024-03-04', NULL),
  (11, 10, 'Omar', '2024-03-06', NULL), (12, 11, 'Nora', '2024-03-10', '2024-03-24'),
  (13, 4, 'Ivy', '2024-03-12', '2024-03-30'), (14, 3, 'Ruth', '2024-03-20', NULL),
  (15, 11, 'Felix', '2024-03-22', '2024-04-02');
