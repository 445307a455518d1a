CREATE TABLE artists (id INTEGER PRIMARY KEY, name TEXT, country TEXT, formed INTEGER);
CREATE TABLE albums (id INTEGER PRIMARY KEY, artist_id INTEGER REFERENCES artists(id), title TEXT, year INTEGER, label TEXT);
CREATE TABLE tracks (id INTEGER PRIMARY KEY, album_id INTEGER REFERENCES albums(id), title TEXT, seconds INTEGER, plays INTEGER);

INSERT INTO artists VALUES
  (1, 'Northern Lights', 'Sweden', 1998), (2, 'The Copper Foxes', 'Canada', 2006), (3, 'Lola Marin', 'Spain', 2014),
  (4, 'Velvet Harbour', 'Scotland', 1987), (5, 'DJ Tamarind', 'India', 2011), (6, 'Iron Orchard', 'Canada', 1993),
  (7, 'Blue Static', 'Japan', 2001), (8, 'Moss', 'Sweden', 2019);

INSERT INTO albums VALUES
  (1, 1, 'Polar Night', 2000, 'Icefield'), (2, 1, 'Second Snow', 2004, 'Icefield'), (3, 2, 'Den', 2009, 'Maple'),
  (4, 3, 'Agua Clara', 2016, 'Sol'), (5, 3, 'Verano', 2019, 'Sol'), (6, 4, 'Tidelines', 1990, NULL),
  (7, 5, 'Spice Route', 2013, 'Monsoon'), (8, 6, 'Rust', 1995, 'Maple'), (9, 6, 'Harvest Engine', 2002, 'Maple'),
  (10, 7, 'Signal', 2005, NULL);

INSERT INTO tracks VALUES
  (1, 1, 'Aurora', 254, 18200), (2, 1, 'Long Dark', 391, 9400), (3, 2, 'Thaw', 228, 15100), (4, 3, 'Burrow', 187, 22000),
  (5, 3, 'Red Tail', 205, 31050), (6, 4, 'Luna', 199, 87000), (7, 4, 'Orilla', 243, 41000), (8, 5, 'Calor', 176, 120500),
  (9, 6, 'Lighthouse', 312, 7800), (10, 6, 'Undertow', 287, 6500), (11, 7, 'Cardamom', 334, 54000), (12, 7, 'Saffron', 362, 47300),
  (13, 8, 'Weld', 221, 12900), (14, 9, 'Piston', 239, 16700), (15, 9, 'Furrow', 268, 11300), (16, 10, 'Noise Floor', 420, 5200),
  (17, 10, 'Carrier', 301, 8100);
