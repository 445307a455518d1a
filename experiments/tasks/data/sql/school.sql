CREATE TABLE teachers (id INTEGER PRIMARY KEY, name TEXT, subject TEXT, salary INTEGER);
CREATE TABLE students (id INTEGER PRIMARY KEY, name TEXT, age INTEGER, class TEXT, city TEXT);
CREATE TABLE marks (id INTEGER PRIMARY KEY, student_id INTEGER REFERENCES students(id), teacher_id INTEGER REFERENCES teachers(id), mark INTEGER);

INSERT INTO teachers VALUES
  (1, 'Ms Carter', 'maths', 3900), (2, 'Mr Silva', 'history', 3400), (3, 'Ms Novak', 'music', 2950),
  (4, 'Mr Voss', 'physics', 4100), (5, 'Ms Ito', 'art', 2800), (6, 'Mr Quinn', 'maths', 3600),
  (7, 'Ms Rossi', 'biology', 3550), (8, 'Mr Haas', 'sports', 3100);

INSERT INTO students VALUES
  (1, 'Ali', 14, '9a', 'Bonn'), (2, 'Bea', 15, '9a', 'Cologne'), (3, 'Cem', 14, '9b', 'Bonn'), (4, 'Dora', 16, '10a', 'Aachen'),
  (5, 'Emil', 16, '10a', 'Bonn'), (6, 'Fay', 15, '9b', 'Cologne'), (7, 'Gus', 17, '10b', 'Aachen'), (8, 'Hana', 16, '10b', 'Bonn'),
  (9, 'Ian', 14, '9a', 'Aachen'), (10, 'Jo', 15, '9b', 'Bonn'), (11, 'Kira', 17, '10a', 'Cologne'), (12, 'Leo', 13, '9a', 'Bonn');

INSERT INTO marks VALUES
  (1, 1, 1, 82), (2, 1, 2, 64), (3, 2, 1, 91), (4, 2, 3, 88), (5, 3, 6, 47), (6, 3, 2, 73), (7, 4, 4, 95), (8, 4, 7, 90),
  (9, 5, 4, 58), (10, 5, 5, 77), (11, 6, 6, 69), (12, 6, 3, 81), (13, 7, 4, 72), (14, 7, 7, 66), (15, 8, 1, 99), (16, 8, 5, 85),
  (17, 9, 1, 53), (18, 9, 2, 60), (19, 10, 6, 78), (20, 10, 3, 92), (21, 11, 7, 87), (22, 11, 4, 70), (23, 12, 1, 40);
