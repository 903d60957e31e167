tidemill run shop.sql --threads 1 > run.txt
tidemill plan shop.sql > plan.txt
tidemill show-watermarks shop.sql > watermarks.txt
