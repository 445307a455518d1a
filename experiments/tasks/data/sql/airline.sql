CREATE TABLE airports (code TEXT PRIMARY KEY, city TEXT, country TEXT);
CREATE TABLE planes (id INTEGER PRIMARY KEY, model TEXT, seats INTEGER, built INTEGER);
CREATE TABLE flights (number TEXT PRIMARY KEY, origin TEXT REFERENCES airports(code), destination TEXT REFERENCES airports(code), plane_id INTEGER REFERENCES planes(id), distance INTEGER, price INTEGER);
CREATE TABLE bookings (id INTEGER PRIMARY KEY, flight TEXT REFERENCES flights(number), passenger TEXT, bags INTEGER);

INSERT INTO airports VALUES
  ('LHR', 'London', 'United Kingdom'), ('CDG', 'Paris', 'France'), ('MAD', 'Madrid', 'Spain'), ('FCO', 'Rome', 'Italy'),
  ('BCN', 'Barcelona', 'Spain'), ('EDI', 'Edinburgh', 'United Kingdom'), ('VIE', 'Vienna', 'Austria'), ('NCE', 'Nice', 'France');

INSERT INTO planes VALUES
  (1, 'Airbus A320', 180, 2012), (2, 'Airbus A319', 144, 2006), (3, 'Boeing 737', 160, 2009), (4, 'Embraer 190', 100, 2017),
  (5, 'Airbus A321', 220, 2020), (6, 'ATR 72', 72, 2015), (7, 'Boeing 787', 290, 2021), (8, 'Embraer 175', 76, 2014);

INSERT INTO flights VALUES
  ('SK101', 'LHR', 'CDG', 2, 350, 95), ('SK102', 'CDG', 'LHR', 2, 350, 105), ('SK210', 'LHR', 'MAD', 1, 1245, 160),
  ('SK211', 'MAD', 'LHR', 1, 1245, 150), ('SK305', 'CDG', 'FCO', 3, 1100, 140), ('SK306', 'FCO', 'VIE', 4, 765, 120),
  ('SK410', 'EDI', 'LHR', 6, 535, 70), ('SK411', 'LHR', 'EDI', 6, 535, 75), ('SK520', 'BCN', 'NCE', 4, 500, 88),
  ('SK530', 'VIE', 'LHR', 5, 1270, 175), ('SK540', 'MAD', 'FCO', 5, 1330, 130), ('SK550', 'NCE', 'CDG', 3, 690, 99);

INSERT INTO bookings VALUES
  (1, 'SK101', 'Rosa Blum', 1), (2, 'SK101', 'Carl Jonas', 0), (3, 'SK210', 'Rosa Blum', 2), (4, 'SK305', 'Mei Chen', 1),
  (5, 'SK410', 'Ewan Reid', 0), (6, 'SK530', 'Lena Bauer', 3), (7, 'SK540', 'Carl Jonas', 1), (8, 'SK211', 'Rosa Blum', 2),
  (9, 'SK306', 'Mei Chen', 1), (10, 'SK520', 'Ines Costa', 0), (11, 'SK530', 'Ewan Reid', 1), (12, 'SK102', 'Carl Jonas', 0),
  (13, 'SK550', 'Ines Costa', 2);
