CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, category TEXT, price REAL, stock INTEGER);
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT, email TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers(id), product_id INTEGER REFERENCES products(id), quantity INTEGER, ordered TEXT);

INSERT INTO products VALUES
  (1, 'kettle', 'kitchen', 29.5, 14), (2, 'toaster', 'kitchen', 34.9, 0), (3, 'desk lamp', 'office', 22.0, 31),
  (4, 'office chair', 'office', 129.0, 5), (5, 'notebook', 'office', 3.2, 210), (6, 'garden hose', 'garden', 18.75, 9),
  (7, 'lawn mower', 'garden', 249.0, 2), (8, 'watering can', 'garden', 11.4, 0), (9, 'frying pan', 'kitchen', 41.0, 17),
  (10, 'board game', 'toys', 27.8, 22), (11, 'kite', 'toys', 15.6, 8);

INSERT INTO customers VALUES
  (1, 'Greta Lind', 'Malmo', 'greta@example.org'), (2, 'Paul Ferrer', 'Girona', NULL),
  (3, 'Hannah Weiss', 'Graz', 'hannah@example.org'), (4, 'Diego Ramos', 'Girona', 'diego@example.org'),
  (5, 'Elsa Nyberg', 'Malmo', NULL), (6, 'Tom Archer', 'Leeds', 'tom@example.org'),
  (7, 'Yusuf Demir', 'Izmir', 'yusuf@example.org'), (8, 'Chloe Martin', 'Leeds', 'chloe@example.org');

INSERT INTO orders VALUES
  (1, 1, 1, 1, '2024-04-02'), (2, 1, 5, 10, '2024-04-02'), (3, 3, 4, 2, '2024-04-05'), (4, 4, 10, 1, '2024-04-09'),
  (5, 2, 6, 1, '2024-04-11'), (6, 6, 7, 1, '2024-04-15'), (7, 6, 8, 3, '2024-04-15'), (8, 4, 5, 25, '2024-04-21'),
  (9, 7, 9, 2, '2024-05-01'), (10, 1, 11, 4, '2024-05-03'), (11, 3, 3, 2, '2024-05-04'), (12, 8, 1, 1, '2024-05-08'),
  (13, 4, 2, 1, '2024-05-12'), (14, 7, 10, 2, '2024-05-20'), (15, 6, 5, 40, '2024-05-28');
