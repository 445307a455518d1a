CREATE TABLE doctors (id INTEGER PRIMARY KEY, name TEXT, specialty TEXT, experience INTEGER);
CREATE TABLE patients (id INTEGER PRIMARY KEY, name TEXT, age INTEGER, city TEXT, insurance TEXT);
CREATE TABLE visits (id INTEGER PRIMARY KEY, patient_id INTEGER REFERENCES patients(id), doctor_id INTEGER REFERENCES doctors(id), day TEXT, cost INTEGER);

INSERT INTO doctors VALUES
  (1, 'Dr Lang', 'cardiology', 21), (2, 'Dr Patel', 'surgery', 12), (3, 'Dr Moreau', 'pediatrics', 7),
  (4, 'Dr Kim', 'cardiology', 4), (5, 'Dr Osei', 'neurology', 16), (6, 'Dr Varga', 'surgery', 25),
  (7, 'Dr Smith', 'radiology', 9), (8, 'Dr Alvarez', 'pediatrics', 18);

INSERT INTO patients VALUES
  (1, 'Ann Reed', 71, 'York', 'Aviva'), (2, 'Ben Cole', 8, 'Leeds', 'Bupa'), (3, 'Cora Hunt', 45, 'York', NULL),
  (4, 'Dan Frost', 33, 'Hull', 'Bupa'), (5, 'Eve Lowe', 67, 'Leeds', 'Aviva'), (6, 'Finn Gray', 5, 'York', 'Bupa'),
  (7, 'Gail Webb', 52, 'Hull', NULL), (8, 'Hugh Nash', 80, 'York', 'Aviva'), (9, 'Iris Dean', 29, 'Leeds', 'Vitality'),
  (10, 'Jack Todd', 61, 'Hull', 'Vitality');

INSERT INTO visits VALUES
  (1, 1, 1, '2024-02-01', 180), (2, 2, 3, '2024-02-01', 60), (3, 3, 2, '2024-02-03', 950), (4, 4, 7, '2024-02-05', 210),
  (5, 5, 1, '2024-02-08', 175), (6, 6, 8, '2024-02-09', 55), (7, 1, 4, '2024-02-12', 130), (8, 8, 5, '2024-02-13', 320),
  (9, 7, 6, '2024-02-20', 1400), (10, 9, 7, '2024-02-21', 190), (11, 8, 1, '2024-02-26', 200), (12, 2, 8, '2024-03-02', 70),
  (13, 3, 7, '2024-03-04', 240), (14, 1, 1, '2024-03-07', 165), (15, 9, 5, '2024-03-11', 305), (16, 5, 6, '2024-03-15', 1150);
